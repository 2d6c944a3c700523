package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholderRE matches ${env.NAME} and ${env.NAME:-DEFAULT}. The second is no expression, so that it never
// means anything else. The first would be one where a step or a variable is called env: it is filled only if
// somebody has set its name.
var placeholderRE = regexp.MustCompile(`\$\{env\.([A-Za-z_][A-Za-z0-9_]*)(:-([^}\n]*))?\}`)

// placeholders are what definitions are filled with before they are sent, so that what is stored is final.
type placeholders struct {
	values map[string]string
	unused map[string]bool // the names that no file has had so far
}

func newPlaceholders(sets []string) (*placeholders, error) {
	p := &placeholders{unused: map[string]bool{}}
	var err error
	if p.values, err = parsePairs(sets); err != nil {
		return nil, err
	}
	for name, value := range p.values {
		if !placeholderRE.MatchString("${env." + name + "}") {
			return nil, fmt.Errorf("--set %s: a name is letters, digits and underscores, and begins with no digit", name)
		}
		if strings.ContainsAny(value, "\r\n") { // every line of the file stays where an error says that it is
			return nil, fmt.Errorf("--set %s: a value is one line", name)
		}
		p.unused[name] = true
	}
	return p, nil
}

// fill is the source with its placeholders filled in, as text. One that has neither a value nor a default stays:
// whoever checks the definition refuses it, unless it is an expression.
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

// leftOver are the names that no file has had.
func (p *placeholders) leftOver() []string { return slices.Sorted(maps.Keys(p.unused)) }
