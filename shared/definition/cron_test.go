package definition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// TestNextFireTime_FollowsZone: a schedule fires in its own zone, also on days on which clocks change.
func TestNextFireTime_FollowsZone(t *testing.T) {
	for _, test := range []struct{ schedule, zone, after, want string }{
		{"0 * * * *", "", "2026-05-01T10:20:30Z", "2026-05-01T11:00 2026-05-01T12:00"},
		{"0 * * * *", "", "2026-05-01T11:00:00Z", "2026-05-01T12:00"},
		{"30 8 * * 1-5", "Europe/Zurich", "2026-05-01T10:00:00Z", "2026-05-04T06:30 2026-05-05T06:30"},
		{"0 0 29 2 *", "", "2026-05-01T10:00:00Z", "2028-02-29T00:00 2032-02-29T00:00"},
		// 2:30 does not exist on the 29th of March, and exists twice on the 25th of October.
		{"30 2 * * *", "Europe/Zurich", "2026-03-28T00:00:00Z", "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30"},
		{"30 2 * * *", "Europe/Zurich", "2026-10-24T00:00:00Z", "2026-10-24T00:30 2026-10-25T00:30 2026-10-26T01:30"},
		{"0 12 * * *", "America/New_York", "2026-03-07T18:00:00Z", "2026-03-08T16:00"},
	} {
		c := &spec.Cron{Schedule: test.schedule, Zone: test.zone}
		at, err := time.Parse(time.RFC3339, test.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range strings.Fields(test.want) {
			if at, err = definition.NextFireTime(c, at); err != nil {
				t.Fatalf("%s: %v", test.schedule, err)
			}
			if got := at.Format("2006-01-02T15:04"); got != want || at.Location() != time.UTC {
				t.Errorf("%s in %s: %s, want %s", test.schedule, test.zone, got, want)
			}
		}
	}
	for _, c := range []spec.Cron{{Schedule: "0 0 31 2 *"}, {Schedule: "never"}, {Schedule: "0 0 * * *", Zone: "Mars/Olympus"}} {
		if at, err := definition.NextFireTime(&c, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
			t.Errorf("%+v fires at %s", c, at)
		}
	}
}

// TestNextFireTime_IsMonotonic: the next fire time is later than any given time, and is the same a second
// before it.
func TestNextFireTime_IsMonotonic(t *testing.T) {
	for _, zone := range []string{"", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Cairo"} {
		for _, schedule := range []string{"* * * * *", "0 * * * *", "*/20 2 * * *", "0 0 * * *", "30 1-3 * * *", "15 2 29 3 *"} {
			c := &spec.Cron{Schedule: schedule, Zone: zone}
			for _, from := range []string{"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-04-04T10:00:00Z", "2026-10-31T20:00:00Z"} {
				at, err := time.Parse(time.RFC3339, from)
				if err != nil {
					t.Fatal(err)
				}
				for range 15 {
					next, err := definition.NextFireTime(c, at)
					if err != nil || !next.After(at) {
						t.Fatalf("%s in %q after %s: %s, %v", schedule, zone, at, next, err)
					}
					if again, err := definition.NextFireTime(c, next.Add(-time.Second)); err != nil || !again.Equal(next) {
						t.Errorf("%s in %q: %s, and a second before it %s, %v", schedule, zone, next, again, err)
					}
					at = at.Add(41 * time.Minute)
				}
			}
		}
	}
}

// TestParse_AcceptsFiveOrSixCronFields: a schedule has five fields, or six with seconds first. Extensions
// of cron libraries are refused.
func TestParse_AcceptsFiveOrSixCronFields(t *testing.T) {
	for schedule, ok := range map[string]bool{
		"* * * * *": true, "*/5 0-6 1,15 * 1-5": true, "0 0 * JAN MON": true, " 0  0 * * 0 ": true, "0 0 * * 7": true,
		"": false, "@daily": false, "* * * *": false, "* * * * * *": true, "*/2 0 4 * * MON": true, "0 22-2 * * *": false, "*/90 * * * *": false, "0 0 4 * * 2026": false, "60 * * * * *": false, "* * * * * * *": false, "60 * * * *": false, "0 24 * * *": false,
		"0 0 0 * *": false, "0 0 * 13 *": false, "0 0 * * 8": false, "0 0 31 2 *": false, "x * * * *": false, "*/0 * * * *": false,
	} {
		_, err := definition.Parse([]byte(head + "cron: {schedule: '" + schedule + "'}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]"))
		if (err == nil) != ok {
			t.Errorf("%q: %v", schedule, err)
		}
	}
}

// TestParse_NamesInvalidCronField: the issue names each field that is out of range or cannot be read.
func TestParse_NamesInvalidCronField(t *testing.T) {
	for schedule, want := range map[string]string{
		"61 25 * * 9":   "the minute 61 is out of range: want 0 to 59; the hour 25 is out of range: want 0 to 23; the weekday 9 is out of range: want 0 to 7",
		"0 0 0 13 *":    "the day 0 is out of range: want 1 to 31; the month 13 is out of range: want 1 to 12",
		"*/90x * * * *": `the minute "*/90x" cannot be read`,
		"0 0 * * MOO":   `the weekday "MOO" cannot be read`,
		"* * * *":       "want five fields",
	} {
		_, err := definition.Parse([]byte(head + "cron: {schedule: '" + schedule + "'}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]\n"))
		if err == nil || !strings.Contains(issueList(nil, err), want) {
			t.Errorf("%s: got %v, want %s", schedule, issueList(nil, err), want)
		}
	}
}
