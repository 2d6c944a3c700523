package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const envPrefix = "LOCKSTEP_" // of every variable of the product

// Load reads the file, if path is not empty, and then the variables in env ("KEY=value"). The
// error names every wrong setting with its position.
func Load(path string, env []string) (Config, error) {
	var source []byte
	if path != "" {
		var err error
		if source, err = os.ReadFile(path); err != nil {
			return Config{}, err
		}
	}
	c, err := Parse(source, env)
	if err != nil && path != "" {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, err
}

// Parse reads a YAML document and then the variables in env.
func Parse(source []byte, env []string) (Config, error) {
	c := Default()
	positions, issues := c.readFile(source)
	issues = append(issues, c.readEnv(env)...)
	if len(issues) > 0 { // without these settings the others cannot be checked
		return Config{}, invalid(issues...)
	}
	isSet := func(key string) bool {
		_, inFile := positions[key]
		return inFile || slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, envVar(key)+"=") })
	}
	c.deriveDefaults()
	issues = c.check(isSet)
	for n := range issues {
		i := &issues[n]
		p := positions[i.Path]
		i.Line, i.Column = p.line, p.column
		if v := envVar(i.Path); slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, v+"=") }) {
			i.Path, i.Line, i.Column = v, 0, 0 // the variable overrides the file
		}
	}
	if len(issues) > 0 {
		return Config{}, invalid(issues...)
	}
	return c, nil
}

func invalid(issues ...workflow.Issue) error {
	return workflow.Invalid("the configuration is not valid", issues)
}

// yamlIssue converts an error of the YAML library to an issue with its line.
func yamlIssue(err error) workflow.Issue {
	i := workflow.Issue{Code: "syntax", Message: err.Error()}
	var e yaml.Error
	if errors.As(err, &e) {
		i.Message = e.GetMessage()
		if tok := e.GetToken(); tok != nil && tok.Position != nil {
			i.Line, i.Column, i.Path = tok.Position.Line, tok.Position.Column, tok.Value
		}
	}
	return i
}

// Setting is one key of the configuration.
type Setting struct {
	Key    string // job.lease
	EnvVar string // LOCKSTEP_JOB_LEASE
	value  reflect.Value
}

// settings lists every key, in the order of the struct.
func settings(v reflect.Value, prefix string) []Setting {
	var all []Setting
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("yaml")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			all = append(all, settings(f, key+".")...)
		} else {
			all = append(all, Setting{key, envVar(key), f})
		}
	}
	return all
}

// Settings lists every key with its variable.
func Settings() []Setting {
	c := Default()
	return settings(reflect.ValueOf(&c).Elem(), "")
}

// Default is the setting's default as written in a file, "" if it is zero.
func (s Setting) Default() string {
	if s.value.IsZero() {
		return ""
	}
	if d, ok := s.value.Interface().(time.Duration); ok {
		return shortDuration(d)
	}
	return fmt.Sprint(s.value.Interface())
}

// shortDuration writes 1h instead of 1h0m0s.
func shortDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// envVar is LOCKSTEP_ and the words of the key in capitals. A capital letter inside a name
// starts a new word.
func envVar(key string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	for _, c := range key {
		switch {
		case c == '.':
			b.WriteByte('_')
		case c >= 'A' && c <= 'Z':
			b.WriteByte('_')
			b.WriteRune(c)
		default:
			b.WriteString(strings.ToUpper(string(c)))
		}
	}
	return b.String()
}

// readEnv sets the settings whose variables are in env. It ignores other variables.
// MisspelledVariables lists the variables in env that no part of the product reads, but that are
// almost the name of one that it does. Others may belong to whoever embeds it.
func MisspelledVariables(env []string) []workflow.Issue {
	var known, short []string
	for _, s := range Settings() {
		known = append(known, s.EnvVar)
	}
	known = append(known, topology.EnvVars...)
	for _, name := range known {
		short = append(short, strings.TrimPrefix(name, envPrefix))
	}
	var issues []workflow.Issue
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || slices.Contains(known, name) {
			continue
		}
		if near := workflow.ClosestWithin(rest, short, 2); near != "" {
			issues = append(issues, workflow.Issue{Path: name, Code: "unknown_variable", Message: "there is no such variable; did you mean " + envPrefix + near + "?"})
		}
	}
	return issues
}

func (c *Config) readEnv(env []string) []workflow.Issue {
	given := map[string]string{}
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, envPrefix) {
			given[k] = v
		}
	}
	issues := MisspelledVariables(env)
	for _, s := range settings(reflect.ValueOf(c).Elem(), "") {
		text, ok := given[s.EnvVar]
		if !ok {
			continue
		}
		if err := setValue(s.value, text); err != nil {
			issues = append(issues, workflow.Issue{Path: s.EnvVar, Code: "value", Message: err.Error()})
		}
	}
	return issues
}

func setValue(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("want a duration such as 90s, not %q", text)
		}
		v.SetInt(int64(d))
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("want a whole number, not %q", text)
		}
		v.SetInt(int64(n))
	case bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("want true or false, not %q", text)
		}
		v.SetBool(text == "true")
	case string:
		v.SetString(text)
	case []string:
		v.Set(reflect.ValueOf(strings.Split(text, ",")))
	default:
		return fmt.Errorf("settings of type %s cannot be set by a variable", v.Type())
	}
	return nil
}
