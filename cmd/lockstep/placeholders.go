package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholderRE matches ${env.NAME} and ${env.NAME:-DEFAULT}. The second form is never a valid
// expression. The first is one if a step or a variable is called env, so it is filled only if NAME
// was set.
var placeholderRE = regexp.MustCompile(`\$\{env\.([A-Za-z_][A-Za-z0-9_]*)(:-([^}\n]*))?\}`)

// placeholders fill definitions before they are sent, so that the stored text is final.
type placeholders struct {
	values map[string]string
	unused map[string]bool // names that no file has contained so far
}

func newPlaceholders(sets []string) (*placeholders, error) {
	p := &placeholders{unused: map[string]bool{}}
	var err error
	if p.values, err = parsePairs("set", sets); err != nil {
		return nil, err
	}
	for name, value := range p.values {
		if !placeholderRE.MatchString("${env." + name + "}") {
			return nil, fmt.Errorf("--set %s: a name is letters, digits and underscores, and begins with no digit", name)
		}
		if strings.ContainsAny(value, "\r\n") { // keep every line of the file where errors report it
			return nil, fmt.Errorf("--set %s: a value is one line", name)
		}
		p.unused[name] = true
	}
	return p, nil
}

// fill replaces the placeholders in a source, as text. It keeps one that has neither a value nor a
// default: publishing refuses it unless it is an expression.
func (p *placeholders) fill(source []byte) []byte {
	return placeholderRE.ReplaceAllFunc(source, func(found []byte) []byte {
		parts := placeholderRE.FindSubmatch(found)
		name := string(parts[1])
		value, set := p.values[name]
		switch {
		case set:
			delete(p.unused, name)
			return []byte(value)
		case parts[2] != nil:
			return parts[3]
		}
		return found
	})
}

// leftOver returns the names that no file contained.
func (p *placeholders) leftOver() []string { return slices.Sorted(maps.Keys(p.unused)) }
