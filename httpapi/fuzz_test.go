package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/queencell/queencell/engine"
)

// wellFormed says by another library whether body is one JSON text in UTF-8. Duplicate names are left to the caller.
func wellFormed(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false))
	if _, err := d.ReadValue(); err == nil {
		_, err = d.ReadToken()
		return err == io.EOF
	}
	// That library refuses lone surrogate escapes together with invalid UTF-8; the standard one takes them.
	return validUTF8(body) && json.Valid(body)
}

func validUTF8(b []byte) bool { return strings.ToValidUTF8(string(b), "") == string(b) }

func nesting(body []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// member is what a slow reader finds in a JSON object, with its name decoded.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object and answers false if it is none, has a name twice, or has a name with a lone surrogate.
func members(raw []byte) ([]member, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, false
	}
	seen := map[string]bool{}
	var out []member
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		name, ok := text(json.RawMessage(quoted.Clone()))
		if !ok || seen[name] {
			return nil, false
		}
		seen[name] = true
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		out = append(out, member{name, json.RawMessage(value.Clone())})
	}
	return out, true
}

// text decodes a JSON string without lone surrogates.
func text(raw json.RawMessage) (string, bool) {
	s, err := jsontext.AppendUnquote(nil, []byte(raw))
	return string(s), err == nil
}

// named is text for a name that may be null.
func named(raw json.RawMessage) (string, bool) {
	if raw == nil || string(raw) == "null" {
		return "", true
	}
	return text(raw)
}

// slowPush reads a push by the rules of the page, with other libraries.
func slowPush(body []byte) (queue, partition string, messages []engine.Message, ok bool) {
	if !wellFormed(body) || nesting(body) > maxDepth {
		return "", "", nil, false
	}
	top, ok := members(body)
	if !ok || len(top) > maxUnknown {
		return "", "", nil, false
	}
	list := json.RawMessage(nil)
	for _, m := range top {
		switch m.name {
		case "queue":
			queue, ok = named(m.value)
		case "partition":
			partition, ok = named(m.value)
		case "messages":
			list = m.value
		}
		if !ok {
			return "", "", nil, false
		}
	}
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil || items == nil {
		return "", "", nil, false
	}
	for _, item := range items {
		fields, ok := members(item)
		if !ok || len(fields) > maxUnknown {
			return "", "", nil, false
		}
		var m engine.Message
		encoding := ""
		for _, f := range fields {
			switch f.name {
			case "payload":
				m.Payload = f.value
			case "encoding":
				if encoding, ok = named(f.value); !ok {
					return "", "", nil, false
				}
			}
		}
		if m.Payload == nil || (encoding != "" && encoding != "base64") {
			return "", "", nil, false
		}
		if encoding == "base64" {
			s, ok := text(json.RawMessage(m.Payload))
			raw, err := base64.StdEncoding.Strict().DecodeString(s)
			if !ok || err != nil || strings.ContainsAny(s, "\r\n") {
				return "", "", nil, false
			}
			m.Payload, m.Raw = raw, true
		}
		messages = append(messages, m)
	}
	ok = engine.ValidQueue(queue) == nil && (partition == "" || engine.ValidName(partition) == nil)
	return queue, partition, messages, ok
}

// FuzzPush compares the scanner with a slow reader: what is taken, and every payload's bytes.
func FuzzPush(f *testing.F) {
	for _, s := range []string{`{"queue":"q","partition":"p","messages":[{"payload":{"a":[1,2.5e-3,"x\ud800",{"a":1,"a":2}]}}]}`,
		`{"queue":"q","messages":[{"payload":"AAEC\/w==","encoding":"base64"},{"payload":null,"encoding":""}],"x":{"y":[]}}`,
		`{"queue":"\u00e9","messages":[]} `, `{"queue":"q","messages":[{"payload":1},{"payload":"\u2028é😀"}]}`, `{"queue":"q","messages":[{"payload":-0}]}{}`,
		`{"queue":"q","x":1,"\u0078":2,"messages":[]}`, `{"queue":"a longer name of a queue","messages":[{"payload":"0123456789abcdef\n"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		queue, partition, messages, ok := slowPush(bytes.Clone(body))
		var s scanner
		var p push
		err := p.decode(&s, bytes.Clone(body))
		if (err == nil) != ok {
			t.Fatalf("%q: err %v, the slow reader says %v", body, err, ok)
		}
		if err != nil {
			if _, bad := err.(badRequest); !bad {
				t.Fatalf("%q: %v is no bad request", body, err)
			}
			return
		}
		if p.queue != queue || p.partition != partition || len(p.messages) != len(messages) {
			t.Fatalf("%q: %+v", body, p)
		}
		for i, m := range p.messages {
			if !bytes.Equal(m.Payload, messages[i].Payload) || m.Raw != messages[i].Raw {
				t.Fatalf("%q: payload %d is %q, want %q", body, i, m.Payload, messages[i].Payload)
			}
		}
	})
}

// slowAck reads an ack by the rules of the page, with other libraries.
func slowAck(body []byte) (queue, group string, acks []engine.Ack, ids []string, ok bool) {
	if !wellFormed(body) || nesting(body) > maxDepth {
		return
	}
	top, good := members(body)
	if !good || len(top) > maxUnknown {
		return
	}
	list := json.RawMessage(nil)
	for _, m := range top {
		switch m.name {
		case "queue":
			queue, good = named(m.value)
		case "group":
			group, good = named(m.value)
		case "acks":
			list = m.value
		}
		if !good {
			return
		}
	}
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil || items == nil {
		return
	}
	for _, item := range items {
		fields, good := members(item)
		if !good || len(fields) > maxUnknown {
			return
		}
		var a engine.Ack
		id := ""
		for _, f := range fields {
			switch {
			case f.name == "id" && f.value[0] == '"':
				id = string(f.value)
				s, plain := text(f.value)
				parsed, valid := engine.ParseID(s)
				if a.Invalid = !valid || !plain; !a.Invalid {
					a.ID = parsed
				}
			case f.name == "id":
				return
			case f.name == "status" && string(f.value) == "null":
			case f.name == "status" && f.value[0] != '"':
				return
			case f.name == "status":
				a.Verb = engine.Nack
				if s, plain := text(f.value); plain && strings.Contains("||completed|success|acked|ok|", "|"+s+"|") && !strings.Contains(s, "|") {
					a.Verb = engine.Complete
				}
			}
		}
		if id == "" {
			return
		}
		acks, ids = append(acks, a), append(ids, id)
	}
	ok = engine.ValidQueue(queue) == nil && (group == "" || engine.ValidName(group) == nil)
	return
}

// FuzzAck compares the ack decoder with a slow reader.
func FuzzAck(f *testing.F) {
	for _, s := range []string{`{"queue":"q","group":"g","acks":[{"id":"e:0123456789abcdef:p:1","status":"failed","error":{"x":1}}]}`,
		`{"queue":"q","acks":[{"status":null,"id":"e:0123456789abcdef:a:b:7.2"},{"id":"\ud800","status":"\u006fk"},{"id":"e:0123456789abcdef:\u00e9:7"}]}`,
		`{"queue":"q","acks":[{"id":"a","status":""},{"id":"a","status":"compleeted"}]}`, `{"queue":"q","acks":[{"id":1}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		queue, group, acks, ids, ok := slowAck(body)
		var s scanner
		var a ack
		err := a.decode(&s, bytes.Clone(body))
		if (err == nil) != ok {
			t.Fatalf("%q: err %v, the slow reader says %v", body, err, ok)
		}
		if err != nil {
			return
		}
		if a.queue != queue || a.group != group || len(a.acks) != len(acks) || len(a.ids) != len(acks) {
			t.Fatalf("%q: %+v", body, a)
		}
		for i, got := range a.acks {
			if got.Invalid {
				got.ID = engine.ID{}
			}
			if got != acks[i] || string(a.ids[i]) != ids[i] {
				t.Fatalf("%q: ack %d is %+v %s, want %+v %s", body, i, got, a.ids[i], acks[i], ids[i])
			}
		}
		if out := appendOutcomes(nil, a.ids, make([]engine.Outcome, len(a.acks))); !json.Valid(out) {
			t.Fatalf("%q: the answer is %s", body, out)
		}
	})
}

// FuzzQuery compares the query parser with the standard one, which takes more.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"queue=a&partition=b%20c&batch=5", "queue=a+b&queue=c", "%71ueue=x&group", "a=%zz", "=&&=;&queue=%ff", "queue==&wait=true"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var values [7]string
		seen, err := parseQuery(raw, popParameters, values[:])
		want := map[string][]string{}
		bad := false
		for _, pair := range strings.Split(raw, "&") {
			name, value, _ := strings.Cut(pair, "=")
			n, err1 := url.QueryUnescape(name)
			v, err2 := url.QueryUnescape(value)
			bad = bad || err1 != nil || err2 != nil
			want[n] = append(want[n], v)
		}
		for k, name := range popParameters {
			bad = bad || len(want[name]) > 1
			if err == nil && len(want[name]) == 1 && (values[k] != want[name][0] || seen&(1<<k) == 0) {
				t.Fatalf("%q: %s is %q, want %q", raw, name, values[k], want[name])
			}
			if err == nil && len(want[name]) == 0 && (values[k] != "" || seen&(1<<k) != 0) {
				t.Fatalf("%q: %s is %q", raw, name, values[k])
			}
		}
		if (err != nil) != bad {
			t.Fatalf("%q: %v, want an error: %v", raw, err, bad)
		}
	})
}

// FuzzString: whatever a name is, its rendering is JSON that reads back to it, on one line and without terminal escapes.
func FuzzString(f *testing.F) {
	for _, s := range []string{"plain", "a\"b\\c\n\x1b[0m\x7f\u0085\u2028é😀", "\xff\xc0\ufffd", "<script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := appendString(nil, s)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q: %s reads back as %q, %v", s, out, back, err)
		}
		for _, r := range string(out) {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q: %q", s, out)
			}
		}
	})
}

// FuzzSettings: configure and the switch never take what is no JSON, and fail in no other way than as a bad request.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"queue":"q","options":{"maxBytes":5,"windowBuffer":{"ms":1}}}`))
	f.Add([]byte(`{"enabled":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s scanner
		_, _, sent, err := decodeConfigure(&s, body)
		if err == nil && (!wellFormed(body) || !json.Valid(sent) || !bytes.Contains(body, sent) && string(sent) != "{}") {
			t.Fatalf("%q was taken: %q", body, sent)
		}
		if _, bad := err.(badRequest); err != nil && !bad {
			t.Fatalf("%q: %v", body, err)
		}
		enabled, err := decodeSwitch(&s, body)
		if err != nil {
			return
		}
		m, ok := members(body)
		if !ok || !wellFormed(body) || len(m) != 1 || m[0].name != "enabled" || string(m[0].value) != map[bool]string{true: "true", false: "false"}[enabled] {
			t.Fatalf("%q was taken as %v", body, enabled)
		}
	})
}
