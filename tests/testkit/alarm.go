package testkit

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Alarm is an alarm on one metric, or on the sum of several, as the template of stage prod has it.
type Alarm struct {
	Metric    string // or "SUM"
	stat      string
	below     bool // it is raised below the threshold, and by periods without a value
	threshold int
	periods   int
	period    time.Duration
}

// Measured is a value of a metric.
type Measured struct {
	At    time.Time
	Value int
}

var alarmRE = regexp.MustCompile(`(?m)^  Alarm(\w+): (\w+)(?:\(\S+)? (Sum|Maximum)? ?(?:GreaterThanOrEqualToThreshold (\d+) notBreaching|LessThanThreshold (\d+) breaching), (\d+) x (\d+) s$`)

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
		return Alarm{Metric: m[2], stat: cmp.Or(m[3], "Sum"), below: m[5] != "", threshold: number(m[4] + m[5]), periods: number(m[6]), period: time.Duration(number(m[7])) * time.Second}
	}
	t.Fatalf("the template has no alarm %s", name)
	return Alarm{}
}

// Fires reports whether values of its metric, which are in order, raise the alarm until the last of
// them, as CloudWatch evaluates it: periods begin at whole multiples of their length.
func (a Alarm) Fires(values []Measured) bool {
	if len(values) == 0 {
		return false
	}
	index := func(at time.Time) int64 { return at.Unix() / int64(a.period.Seconds()) }
	periods := map[int64]int{}
	for _, v := range values {
		if a.stat == "Sum" {
			periods[index(v.At)] += v.Value
		} else {
			periods[index(v.At)] = max(periods[index(v.At)], v.Value)
		}
	}
	breaching := 0 // periods, one after the other
	for at := index(values[0].At); at <= index(values[len(values)-1].At); at++ {
		value, ok := periods[at]
		if a.below && value >= a.threshold || !a.below && (!ok || value < a.threshold) {
			breaching = 0
		} else if breaching++; breaching == a.periods {
			return true
		}
	}
	return false
}
