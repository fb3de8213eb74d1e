package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/queencell/queencell/cell"
)

// parseEnviron is the environment as a map. A variable that is set to nothing counts as not set, which is how compose
// files pass one on that is not set outside.
func parseEnviron(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && value != "" {
			vars[name] = value
		}
	}
	return vars
}

// loadConfig reads and checks the configuration. Its error names every variable that is wrong and what it accepts, one
// a line.
func loadConfig(vars map[string]string) (config, error) {
	var c config
	problems := parseInto(&c, vars)
	for _, name := range slices.Sorted(maps.Keys(later)) {
		if value, off := vars[name], later[name]; value != "" && value != off {
			problem := name + ": this version does not have what it asks for; unset it"
			if off != "" {
				problem += " or set it to " + off
			}
			problems = append(problems, problem)
		}
	}
	if c.InflightMaxBytes == 0 {
		c.InflightMaxBytes = max(c.MaxBytes/4, 64<<10) // with less no request could be read at all
	}
	if len(problems) == 0 && c.Node == "" {
		c.Node = drawNode()
	}
	if len(problems) > 0 {
		return config{}, errors.New("queencell: the configuration is wrong:\n  " + strings.Join(problems, "\n  "))
	}
	return c, nil
}

// parseInto fills the struct that target points to, and tells what is wrong, in the order of its fields.
func parseInto(target any, vars map[string]string) (problems []string) {
	wrong := map[string]bool{}
	err := env.ParseWithOptions(target, env.Options{Environment: vars, FuncMap: parsers})
	var all env.AggregateError
	if errors.As(err, &all) {
		for _, e := range all.Errors {
			if p := (env.ParseError{}); errors.As(e, &p) {
				wrong[p.Name] = true
				continue
			}
			problems = append(problems, e.Error()) // a mistake in the tags, which a test finds
		}
	}
	v := reflect.ValueOf(target).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("env")
		if wrong[field.Name] || vars[name] != "" && !inRange(field, v.Field(i)) {
			accepts, _ := accepted(field, vars[name])
			problems = append(problems, fmt.Sprintf("%s: accepts %s, not %s", name, accepts, shorten(masked(field, vars[name]))))
		}
	}
	return problems
}

// parsers are stricter than the library's: 1e3, +5, 0x10, 1_000 and " 5" are no numbers, "yes" and "1" no booleans.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[int64](): func(s string) (any, error) {
		if strings.Trim(s, "0123456789") != "" {
			return nil, errors.New("not a number")
		}
		return strconv.ParseInt(s, 10, 64)
	},
	reflect.TypeFor[bool](): func(s string) (any, error) {
		if s != "true" && s != "false" {
			return nil, errors.New("not a boolean")
		}
		return s == "true", nil
	},
}

func inRange(field reflect.StructField, value reflect.Value) bool {
	switch v := value.Interface().(type) {
	case int64:
		low, high := limits(field)
		return v >= low && v <= high
	case time.Duration:
		low, high := durations(field)
		return v >= low && v <= high
	case string:
		_, ok := accepted(field, v)
		return ok
	}
	return true
}

// accepted tells in words what a variable accepts, and for a text whether value is that.
func accepted(field reflect.StructField, value string) (accepts string, ok bool) {
	switch field.Type {
	case reflect.TypeFor[int64]():
		low, high := limits(field)
		return fmt.Sprintf("a whole number from %d to %d", low, high), true
	case reflect.TypeFor[time.Duration]():
		low, high := durations(field)
		return fmt.Sprintf("a duration such as 8s or 1m30s, from %v to %v", low, high), true
	case reflect.TypeFor[bool]():
		return "true or false", true
	}
	if check := rules[field.Tag.Get("check")]; check != nil {
		return check(value)
	}
	return "any text", true
}

// limits and durations are the range of a number or duration; a test finds a tag that does not parse.
func limits(field reflect.StructField) (low, high int64) {
	low, _ = strconv.ParseInt(field.Tag.Get("min"), 10, 64)
	high, _ = strconv.ParseInt(field.Tag.Get("max"), 10, 64)
	return low, high
}

func durations(field reflect.StructField) (low, high time.Duration) {
	low, _ = time.ParseDuration(field.Tag.Get("min"))
	high, _ = time.ParseDuration(field.Tag.Get("max"))
	return low, high
}

func checkStore(value string) (accepts string, ok bool) {
	path, file := strings.CutPrefix(value, "file:")
	return "file:PATH or memory", value == "memory" || file && path != ""
}

func checkName(value string) (accepts string, ok bool) {
	return "1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'", cell.ValidNode(value) == nil
}

func checkURL(value string) (accepts string, ok bool) {
	u, err := url.Parse(value)
	return fmt.Sprintf("an http or https URL with a host, at most %d bytes", cell.MaxURL),
		err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && len(value) <= cell.MaxURL
}

func checkLevel(value string) (accepts string, ok bool) {
	_, ok = levels[strings.ToLower(value)]
	return "debug, info, warn or error", ok
}

// shorten quotes a value for a message, at most its first 80 bytes.
func shorten(value string) string {
	if len(value) > 80 {
		value = value[:80] + "..."
	}
	return strconv.Quote(value)
}

// hostname is this machine's name; "localhost" where it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}
