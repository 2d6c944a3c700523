package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Schedule is what five fields say, or six.
type Schedule struct {
	seconds                                uint64 // the first one, unless the fields say
	minutes, hours, days, months, weekdays uint64 // a bit for each value
	dayOrWeekday                           bool   // day or weekday, as both are restricted
	isInterval                             bool   // comes again and again rather than at times of the day
}

// field is one of them.
type field struct {
	name      string
	low, high int
	names     []string // for low and those after it
}

var fields = []field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day", 1, 31, nil},
	{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"weekday", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// Parse reads a schedule. An error names each field that is wrong.
func Parse(text string) (*Schedule, error) {
	texts := strings.Fields(text)
	if len(texts) == len(fields)-1 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) != len(fields) {
		return nil, errors.New("want five fields: minute, hour, day, month, weekday")
	}
	var bits [6]uint64
	var problems []string
	for i, f := range fields {
		for _, part := range strings.Split(texts[i], ",") {
			b, err := f.parsePart(part)
			if err != nil {
				problems = append(problems, err.Error())
			}
			bits[i] |= b
		}
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	if bits[5]&(1<<7) != 0 {
		bits[5] |= 1 // the seventh day is the first one
	}
	return &Schedule{
		seconds: bits[0], minutes: bits[1], hours: bits[2], days: bits[3], months: bits[4], weekdays: bits[5],
		dayOrWeekday: texts[3][0] != '*' && texts[5][0] != '*',
		isInterval:   strings.ContainsAny(texts[1]+texts[2], "*/"),
	}, nil
}

// parsePart reads a value, a range or all, each perhaps with a step.
func (f field) parsePart(text string) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		n, err := strconv.Atoi(stepText)
		if err != nil {
			return 0, f.parseError(text)
		}
		if n < 1 || n > f.high {
			return 0, fmt.Errorf("the step %d of the %s is out of range: want 1 to %d", n, f.name, f.high)
		}
		step = n
	}
	low, high := f.low, f.high
	if span != "*" {
		firstText, lastText, ranged := strings.Cut(span, "-")
		var err error
		if low, err = f.parseValue(text, firstText); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if high, err = f.parseValue(text, lastText); err != nil {
				return 0, err
			}
		case !stepped:
			high = low
		}
		if low > high {
			return 0, fmt.Errorf("the %s %q goes down: write %s-%d,%d-%s", f.name, text, firstText, f.high, f.low, lastText)
		}
	}
	var bits uint64
	for v := low; v <= high; v += step {
		bits |= 1 << v
	}
	return bits, nil
}

func (f field) parseValue(part, text string) (int, error) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, f.parseError(part)
	}
	if v := int(n); v >= f.low && v <= f.high {
		return v, nil
	}
	return 0, fmt.Errorf("the %s %d is out of range: want %d to %d", f.name, n, f.low, f.high)
}

func (f field) parseError(part string) error {
	return fmt.Errorf("the %s %q cannot be read: want *, numbers, ranges such as 1-5, lists, or steps such as */10", f.name, part)
}
