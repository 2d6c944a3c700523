// Package cron reads cron schedules and finds when they fire next, also across changes of the
// clocks. A schedule has five fields, and may have a field of seconds before them.
// docs/decisions/0018-own-cron.md explains why it is not a library.
package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a parsed schedule. Each field is a set of values, one bit for each.
type Schedule struct {
	seconds                                uint64 // only 0 unless the schedule has six fields
	minutes, hours, days, months, weekdays uint64
	dayOrWeekday                           bool // both are restricted, so either may match
	isInterval                             bool // fires at intervals rather than at times of the day
}

// field describes one field of a schedule.
type field struct {
	name      string
	low, high int
	names     []string // of the values from low on
}

var fields = []field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day", 1, 31, nil},
	{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{"weekday", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// Parse reads a schedule. The error names every field that is wrong.
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
		bits[5] |= 1 // 7 is Sunday, as 0 is
	}
	return &Schedule{
		seconds: bits[0], minutes: bits[1], hours: bits[2], days: bits[3], months: bits[4], weekdays: bits[5],
		dayOrWeekday: texts[3][0] != '*' && texts[5][0] != '*',
		isInterval:   strings.ContainsAny(texts[1]+texts[2], "*/"),
	}, nil
}

// parsePart reads a value, a range or *, each with an optional step.
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

// maxSearchDays is how many days ahead to search. The 29th of February comes after eight years
// around a century that is no leap year, and one that is a Monday after forty.
const maxSearchDays = 41 * 366

// Next returns the first time after the given one at which the schedule fires in a zone, in UTC. It
// returns false if the schedule never fires.
//
// A schedule with * or / in its minute or hour fires at intervals. It treats a change of the clocks
// like any other hour, and so may fire twice at the same time of the day. Any other schedule fires
// once at each of its times of the day: at the first of two when clocks are put back, and at the
// moment of the change when clocks are put forward past the time.
func (s *Schedule) Next(after time.Time, zone *time.Location) (time.Time, bool) {
	if s.isInterval {
		return s.nextInterval(after, zone)
	}
	for wall := wallClock(after.In(zone)); ; {
		next, ok := s.nextWallTime(wall)
		if !ok {
			return time.Time{}, false
		}
		if at := resolveWallTime(next, zone); at.After(after) {
			return at, true
		}
		wall = next
	}
}

// nextInterval searches one period of constant offset from UTC after another.
func (s *Schedule) nextInterval(at time.Time, zone *time.Location) (time.Time, bool) {
	for range 2 * maxSearchDays {
		local := at.In(zone)
		wall := wallClock(local)
		next, ok := s.nextWallTime(wall)
		if !ok {
			return time.Time{}, false
		}
		_, end := local.ZoneBounds()
		if fireTime := at.Add(next.Sub(wall)); end.IsZero() || fireTime.Before(end) {
			return fireTime.UTC(), true
		}
		if s.matches(wallClock(end.In(zone))) {
			return end.UTC(), true
		}
		at = end
	}
	return time.Time{}, false
}

// wallClock returns the date and time that a wall clock shows, as a time in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// resolveWallTime returns the moment at which a wall clock of the zone first shows a time. If it
// never does, that is the moment at which the clock is put forward past that time.
func resolveWallTime(wall time.Time, zone *time.Location) time.Time {
	// A wall clock shows the time at most a day before or after one in UTC does. Try each period of
	// constant offset between the two.
	at := wall.Add(-26 * time.Hour).In(zone)
	for {
		_, end := at.ZoneBounds()
		_, offset := at.Zone()
		found := wall.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || found.Before(end) {
			if found.Before(at) { // the period begins after that
				return at.UTC()
			}
			return found.UTC()
		}
		at = end.In(zone)
	}
}

// matches reports whether the schedule fires when a wall clock shows a time.
func (s *Schedule) matches(wall time.Time) bool {
	return wall.Nanosecond() == 0 && hasBit(s.seconds, wall.Second()) && s.matchesDay(wall) &&
		hasBit(s.hours, wall.Hour()) && hasBit(s.minutes, wall.Minute())
}

// nextWallTime returns the next matching time of a wall clock that is never changed.
func (s *Schedule) nextWallTime(wall time.Time) (time.Time, bool) {
	from := wall.Truncate(time.Second).Add(time.Second)
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
	for range maxSearchDays {
		if s.matchesDay(day) {
			for hour := range 24 {
				if !hasBit(s.hours, hour) || day.Add(time.Duration(hour)*time.Hour+time.Hour).Compare(from) <= 0 {
					continue
				}
				for minute := range 60 {
					at := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
					if !hasBit(s.minutes, minute) || at.Add(time.Minute).Compare(from) <= 0 {
						continue
					}
					for second := range 60 {
						if at := at.Add(time.Duration(second) * time.Second); hasBit(s.seconds, second) && !at.Before(from) {
							return at, true
						}
					}
				}
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}, false
}

// matchesDay reports whether the schedule fires on a day. If day and weekday are both restricted,
// one of them is enough.
func (s *Schedule) matchesDay(day time.Time) bool {
	if !hasBit(s.months, int(day.Month())) {
		return false
	}
	date, weekday := hasBit(s.days, day.Day()), hasBit(s.weekdays, int(day.Weekday()))
	if s.dayOrWeekday {
		return date || weekday
	}
	return date && weekday
}

func hasBit(bits uint64, v int) bool { return bits&(1<<v) != 0 }
