package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// deleteLimit bounds how many entities of a type a synchronisation may delete. More are probably
// the mistake of a program that does not list everything.
type deleteLimit struct {
	count   int // if percent < 0
	percent float64
	least   int // so many are allowed whatever the percentage
}

// defaultDeleteLimit applies without --max-delete: a tenth of a type, or ten.
var defaultDeleteLimit = deleteLimit{percent: 10, least: 10}

// parseDeleteLimit reads the value of --max-delete: a number of entities or a percentage.
func parseDeleteLimit(text string) (deleteLimit, error) {
	if text == "" {
		return defaultDeleteLimit, nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		if p, err := strconv.ParseFloat(number, 64); err == nil && p >= 0 && p <= 100 {
			return deleteLimit{percent: p}, nil
		}
	} else if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return deleteLimit{count: n, percent: -1}, nil
	}
	return deleteLimit{}, fmt.Errorf("--max-delete: %q is neither a number of entities, such as 50, nor a percentage of a type, such as 25%%", text)
}

func (l deleteLimit) allows(missing, stored int) bool {
	if l.percent < 0 {
		return missing <= l.count
	}
	return missing <= l.least || float64(missing)*100 <= l.percent*float64(stored)
}

// tooManyDeletions returns an error text if more entities of a type are missing than the limit
// allows, "" otherwise.
func (d *difference) tooManyDeletions(l deleteLimit) string {
	missing := map[string]int{}
	for _, e := range d.missing {
		missing[e.Type]++
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if n, stored := missing[name], d.stored[name]; !l.allows(n, stored) {
			return fmt.Sprintf("%d of the %d entities of type %q would be deleted; nothing was changed. Does the program list all of them? If it does, say --max-delete %d", n, stored, name, n)
		}
	}
	return ""
}
