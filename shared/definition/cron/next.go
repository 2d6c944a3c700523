package cron

import "time"

// maxSearchDays is how many days ahead a schedule is looked for: the 29th of February
// comes after eight years where a century is no leap year, and the one that is a
// Monday after forty.
const maxSearchDays = 41 * 366

// Next is when the schedule comes next after a time, in a zone; false if it never
// comes.
//
// One that comes again and again, with * or / in its minute or hour, goes on
// through a change of the clocks as through any other hour, and so may come twice
// at the same time of the day. One at times of the day comes once at each: at the
// first of two, and where there is none, at the moment of the change.
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

// nextInterval finds the next moment stretch by stretch, in each of which the clocks go
// evenly.
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

// wallClock is what a clock on the wall shows, as if it hung in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// resolveWallTime is when a clock on the wall of a zone first shows a time, or, if it
// never does, when it is put forward past it.
func resolveWallTime(wall time.Time, zone *time.Location) time.Time {
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

// matches reports whether the schedule comes when a clock shows a time.
func (s *Schedule) matches(wall time.Time) bool {
	return wall.Nanosecond() == 0 && hasBit(s.seconds, wall.Second()) && s.matchesDay(wall) &&
		hasBit(s.hours, wall.Hour()) && hasBit(s.minutes, wall.Minute())
}

// nextWallTime is the next time of the clock, as if clocks were never changed.
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

// matchesDay reports whether the schedule comes on a day. Where day and weekday are both
// restricted, either will do.
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
