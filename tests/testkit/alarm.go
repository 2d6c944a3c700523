package testkit

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Alarm is an alarm on one metric, as the template of stage prod has it.
type Alarm struct {
	Metric    string
	stat      string
	threshold int
	periods   int
	period    time.Duration
}

// Measured is a value of a metric.
type Measured struct {
	At    time.Time
	Value int
}

var alarmRE = regexp.MustCompile(`(?m)^  Alarm(\w+): (\w+) (Sum|Maximum) GreaterThanOrEqualToThreshold (\d+) notBreaching, (\d+) x (\d+) s$`)

// ReadAlarm reads an alarm from infra/testdata/prod.golden, which a test compares with the template.
func ReadAlarm(t testing.TB, name string) Alarm {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join(Root(t), "infra", "testdata", "prod.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range alarmRE.FindAllStringSubmatch(string(golden), -1) {
		if m[1] != name {
			continue
		}
		number := func(text string) int {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		return Alarm{Metric: m[2], stat: m[3], threshold: number(m[4]), periods: number(m[5]), period: time.Duration(number(m[6])) * time.Second}
	}
	t.Fatalf("the template has no alarm %s on one metric", name)
	return Alarm{}
}

// Fires reports whether values of its metric raise the alarm, as CloudWatch evaluates it: periods
// begin at whole multiples of their length, and one without a value does not breach.
func (a Alarm) Fires(values []Measured) bool {
	periods := map[int64]int{}
	for _, v := range values {
		at := v.At.Unix() / int64(a.period.Seconds())
		if a.stat == "Sum" {
			periods[at] += v.Value
		} else {
			periods[at] = max(periods[at], v.Value)
		}
	}
	for last := range periods {
		breaching := 0
		for n := range a.periods {
			if value, ok := periods[last-int64(n)]; ok && value >= a.threshold {
				breaching++
			}
		}
		if breaching == a.periods {
			return true
		}
	}
	return false
}
