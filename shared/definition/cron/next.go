package cron

import "time"

// searched is how many days ahead a schedule is looked for: the 29th of February
// comes after eight years where a century is no leap year, and the one that is a
// Monday after forty.
const searched = 41 * 366

// Next is when the schedule comes next after a time, in a zone; false if it never
// comes.
//
// One that comes again and again, with * or / in its minute or hour, goes on
// through a change of the clocks as through any other hour, and so may come twice
// at the same time of the day. One at times of the day comes once at each: at the
// first of two, and where there is none, at the moment of the change.
func (s *Schedule) Next(after time.Time, zone *time.Location) (time.Time, bool) {
	if s.steady {
		return s.goOn(after, zone)
	}
	for wall := clock(after.In(zone)); ; {
		next, ok := s.following(wall)
		if !ok {
			return time.Time{}, false
		}
		if at := moment(next, zone); at.After(after) {
			return at, true
		}
		wall = next
	}
}

// goOn finds the next moment stretch by stretch, in each of which the clocks go
// evenly.
func (s *Schedule) goOn(at time.Time, zone *time.Location) (time.Time, bool) {
	for range 2 * searched {
		local := at.In(zone)
		wall := clock(local)
		next, ok := s.following(wall)
		if !ok {
			return time.Time{}, false
		}
		_, end := local.ZoneBounds()
		if found := at.Add(next.Sub(wall)); end.IsZero() || found.Before(end) {
			return found.UTC(), true
		}
		if s.comes(clock(end.In(zone))) {
			return end.UTC(), true
		}
		at = end
	}
	return time.Time{}, false
}

// clock is what a clock on the wall shows, as if it hung in UTC.
func clock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// moment is when a clock on the wall of a zone first shows a time, or, if it
// never does, when it is put forward past it.
func moment(wall time.Time, zone *time.Location) time.Time {
	// The clock shows it a day at most before or after one in UTC does; the stretches
	// in between are tried in order.
	at := wall.Add(-26 * time.Hour).In(zone)
	for {
		_, end := at.ZoneBounds()
		_, offset := at.Zone()
		found := wall.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || found.Before(end) {
			if found.Before(at) { // this stretch begins later than that
				return at.UTC()
			}
			return found.UTC()
		}
		at = end.In(zone)
	}
}

// comes reports whether the schedule comes when a clock shows a time.
func (s *Schedule) comes(wall time.Time) bool {
	return wall.Nanosecond() == 0 && has(s.seconds, wall.Second()) && s.on(wall) &&
		has(s.hours, wall.Hour()) && has(s.minutes, wall.Minute())
}

// following is the next time of the clock, as if clocks were never changed.
func (s *Schedule) following(wall time.Time) (time.Time, bool) {
	from := wall.Truncate(time.Second).Add(time.Second)
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
	for range searched {
		if s.on(day) {
			for hour := range 24 {
				if !has(s.hours, hour) || day.Add(time.Duration(hour)*time.Hour+time.Hour).Compare(from) <= 0 {
					continue
				}
				for minute := range 60 {
					at := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
					if !has(s.minutes, minute) || at.Add(time.Minute).Compare(from) <= 0 {
						continue
					}
					for second := range 60 {
						if at := at.Add(time.Duration(second) * time.Second); has(s.seconds, second) && !at.Before(from) {
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

// on reports whether the schedule comes on a day. Where day and weekday are both
// restricted, either will do.
func (s *Schedule) on(day time.Time) bool {
	if !has(s.months, int(day.Month())) {
		return false
	}
	date, weekday := has(s.days, day.Day()), has(s.weekdays, int(day.Weekday()))
	if s.either {
		return date || weekday
	}
	return date && weekday
}

func has(bits uint64, v int) bool { return bits&(1<<v) != 0 }
