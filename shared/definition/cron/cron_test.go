package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"

	"github.com/lockstep-run/lockstep/shared/definition/cron"
)

// TestSchedule_NextAcrossDaylightSavingChanges: clocks in Zurich go from 2:00 to 3:00 on the
// 29th of March 2026, and from 3:00 back to 2:00 on the 25th of October. Clocks in New
// York go from 2:00 to 3:00 on the 8th of March, and from 2:00 back to 1:00 on the 1st of
// November.
func TestSchedule_NextAcrossDaylightSavingChanges(t *testing.T) {
	const zurich, york = "Europe/Zurich", "America/New_York"
	for _, test := range []struct{ schedule, zone, after, want string }{
		// Times of the day fire once: at the first of two, and at the change if there is none.
		{"30 2 * * *", zurich, "2026-03-27T12:00:00Z", "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30"},
		{"30 2 * * *", york, "2026-03-06T12:00:00Z", "2026-03-07T07:30 2026-03-08T07:00 2026-03-09T06:30"},
		{"30 2 * * *", zurich, "2026-10-24T12:00:00Z", "2026-10-25T00:30 2026-10-26T01:30"},
		{"30 2 * * *", zurich, "2026-10-25T00:45:00Z", "2026-10-26T01:30"}, // it fired at 0:30
		{"30 2 * * *", zurich, "2026-10-25T01:10:00Z", "2026-10-26T01:30"},
		{"30 1 * * *", york, "2026-10-31T12:00:00Z", "2026-11-01T05:30 2026-11-02T06:30"},
		{"30 1 * * *", york, "2026-11-01T06:10:00Z", "2026-11-02T06:30"},
		{"10,50 2 * * *", zurich, "2026-10-25T00:20:00Z", "2026-10-25T00:50 2026-10-26T01:10"},
		{"10,50 2 29 3 *", zurich, "2026-03-28T12:00:00Z", "2026-03-29T01:00 2027-03-29T00:10"}, // both fire at the change, as one
		{"0 3 * * *", zurich, "2026-03-28T12:00:00Z", "2026-03-29T01:00 2026-03-30T01:00"},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00 2026-04-24T21:00"},                   // there is no midnight
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-29T22:00 2011-12-30T10:00 2011-12-30T22:00"}, // there is no 30th of December
		// Intervals ignore the time of the day.
		{"*/30 * * * *", zurich, "2026-03-29T00:15:00Z", "2026-03-29T00:30 2026-03-29T01:00 2026-03-29T01:30"},
		{"*/30 * * * *", york, "2026-03-08T06:15:00Z", "2026-03-08T06:30 2026-03-08T07:00 2026-03-08T07:30"},
		{"*/30 * * * *", zurich, "2026-10-24T23:45:00Z", "2026-10-25T00:00 2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30 2026-10-25T02:00"},
		{"0 * * * *", york, "2026-11-01T04:30:00Z", "2026-11-01T05:00 2026-11-01T06:00 2026-11-01T07:00"},
		{"0 * * * *", zurich, "2026-10-24T23:30:00Z", "2026-10-25T00:00 2026-10-25T01:00 2026-10-25T02:00"},
		{"45 * * * *", zurich, "2026-03-29T00:00:00Z", "2026-03-29T00:45 2026-03-29T01:45"},
		{"0 */2 * * *", zurich, "2026-03-28T23:30:00Z", "2026-03-29T02:00 2026-03-29T04:00"}, // there is no 2:00
		{"*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:35:00Z", "2026-04-04T14:45 2026-04-04T15:00 2026-04-04T15:15"},
		// No clock changes.
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00"},
		{"0 0 13 * 5", "", "2026-03-01T00:00:00Z", "2026-03-06T00:00 2026-03-13T00:00 2026-03-20T00:00"},
		{"0 0 * * 7", "", "2026-03-01T00:00:00Z", "2026-03-08T00:00"},
		{"0 0 * jan-mar mon,FRI", "", "2026-01-31T01:00:00Z", "2026-02-02T00:00 2026-02-06T00:00"},
		{"0 5/10 * * *", "", "2026-01-31T01:00:00Z", "2026-01-31T05:00 2026-01-31T15:00 2026-02-01T05:00"},
	} {
		s, err := cron.Parse(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, test.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(test.want) {
			at, _ = s.Next(at, zone)
			got = append(got, at.Format("2006-01-02T15:04"))
		}
		if strings.Join(got, " ") != test.want || at.Location() != time.UTC {
			t.Errorf("%s in %s after %s:\ngot  %s\nwant %s", test.schedule, test.zone, test.after, strings.Join(got, " "), test.want)
		}
	}
}

// TestParse_NamesInvalidField: an error names the field that is wrong and the value in it.
func TestParse_NamesInvalidField(t *testing.T) {
	for schedule, want := range map[string]string{
		"*/90 * * * *": "the step 90 of the minute is out of range: want 1 to 59", "*/0 * * * *": "the step 0 of the minute",
		"0 22-2 * * *": `the hour "22-2" goes down: write 22-23,0-2`, "0 */24 * * *": "the step 24 of the hour",
		"99 24 * * *": "the minute 99 is out of range: want 0 to 59; the hour 24 is", "0 0 0 * *": "the day 0", "0 0 L * *": `the day "L" cannot be read`,
		"0 0 15W * *": `the day "15W"`, "0 0 * 13 *": "the month 13", "0 0 * * 8": "the weekday 8", "0 0 * * 1#5": `the weekday "1#5"`, "0 0 ? * *": `the day "?"`,
		"* * * * * * *": "want five fields", "60 * * * * *": "the second 60", "0 0 4 * * 2026": "the weekday 2026", "": "want five fields", "@daily": "want five fields", "1,,2 * * * *": `the minute ""`, "-1 * * * *": `the minute "-1"`,
		"+1 * * * *": `the minute "+1"`, "1- * * * *": `the minute "1-"`, "1/ * * * *": `the minute "1/"`, "1-2-3 * * * *": `the minute "1-2-3"`,
	} {
		if _, err := cron.Parse(schedule); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", schedule, err, want)
		}
	}
	s, err := cron.Parse("0 0 31 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC); ok {
		t.Error("the 31st of February fires at", at)
	}
}

// TestSchedule_NextMatchesGronx: where no clock changes, the times are those of gronx.
func TestSchedule_NextMatchesGronx(t *testing.T) {
	for _, schedule := range []string{"* * * * *", "*/7 * * * *", "5-40/10 2,14 * * *", "0 0 1 * *", "30 8 * * 1-5", "0 0 1,15 * 3", "15 10 * 2-4 *", "0 0 29 2 *", "59 23 31 12 *", "*/10 * * * * *", "5,50 0 4 * * 1", "0 6 */3 * *"} {
		s, err := cron.Parse(schedule)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 30, 23, 58, 31, 7, time.UTC)
		for range 20 {
			want, err := gronx.NextTickAfter(schedule, at, false)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := s.Next(at, time.UTC)
			if !ok || !got.Equal(want) {
				t.Fatalf("%s after %s: %s, want %s", schedule, at, got, want)
			}
			at = got.Add(37 * time.Second)
		}
	}
}
