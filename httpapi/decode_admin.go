package httpapi

import (
	"bytes"
	"strconv"

	"github.com/queencell/queencell/engine"
)

var (
	configureFields = []string{"queue", "options"}
	resetFields     = []string{"queue"}
	switchFields    = []string{"enabled"}
)

// decodeConfigure reads {"queue","options"?}. sent is a copy of the options object as it came, {} if there was none.
func decodeConfigure(s *scanner, body []byte) (queue string, settings engine.Settings, sent []byte, err error) {
	s.start(body)
	var options []byte
	o := s.object("the body", configureFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		if k == 0 {
			queue = s.name("queue")
		} else {
			options = s.skip()
		}
	}
	if err := s.end(); err != nil {
		return "", settings, nil, err
	}
	if err := checkQueue(queue); err != nil {
		return "", settings, nil, err
	}
	if !o.has(1) {
		options = []byte("{}")
	}
	if len(options) > maxOptions {
		return "", settings, nil, badRequest("options has more than " + strconv.Itoa(maxOptions) + " bytes")
	}
	settings, err = engine.ParseSettings(options)
	if err != nil {
		return "", settings, nil, badRequest(err.Error())
	}
	return queue, settings, bytes.Clone(options), nil
}

// maxOptions is the longest options object, as it is sent and stored.
const maxOptions = 64 << 10

// decodeReset reads {"queue"}.
func decodeReset(s *scanner, body []byte) (queue string, err error) {
	s.start(body)
	o := s.object("the body", resetFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		queue = s.name("queue")
	}
	if err := s.end(); err != nil {
		return "", err
	}
	return queue, checkQueue(queue)
}

// decodeSwitch reads {"enabled":bool}. It is strict, unknown members included: a slip here stops a whole cell.
func decodeSwitch(s *scanner, body []byte) (enabled bool, err error) {
	s.start(body)
	o := s.object("the body", switchFields)
	for k := s.field(&o); k >= 0; k = s.field(&o) {
		switch s.peek() {
		case 't':
			enabled = s.literal("true")
		case 'f':
			s.literal("false")
		default:
			s.fail("enabled must be true or false")
		}
	}
	if err := s.end(); err != nil {
		return false, err
	}
	if !o.has(0) || o.members != 1 {
		return false, badRequest("the body must be an object with the one member enabled")
	}
	return enabled, nil
}

// checkQueue refuses what cannot name a queue (contract N1).
func checkQueue(name string) error {
	if err := engine.ValidQueue(name); err != nil {
		return badRequest("queue " + err.Error())
	}
	return nil
}

// checkOptionalName refuses what cannot name a partition or group; "" means absent.
func checkOptionalName(what, name string) error {
	if name == "" {
		return nil
	}
	if err := engine.ValidName(name); err != nil {
		return badRequest(what + " " + err.Error())
	}
	return nil
}
