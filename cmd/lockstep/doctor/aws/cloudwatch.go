package aws

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Alarm is a CloudWatch alarm.
type Alarm struct {
	Name           string
	State          string // OK, ALARM or INSUFFICIENT_DATA
	Description    string // its description
	StateUpdatedAt time.Time
	HasActions     bool // somebody is told
}

const (
	cloudWatchVersion = "2010-08-01"
	alarmsPerCall     = 100
)

// Alarms reads alarms by their names; those that there are not are left out.
func (a *Account) Alarms(ctx context.Context, names []string) ([]Alarm, error) {
	var all []Alarm
	for some := range slices.Chunk(names, alarmsPerCall) {
		form := url.Values{"MaxRecords": {fmt.Sprint(alarmsPerCall)}}
		for i, name := range some {
			form.Set(fmt.Sprintf("AlarmNames.member.%d", i+1), name)
		}
		var page struct {
			Alarms []struct {
				AlarmName, StateValue, AlarmDescription string
				StateUpdatedTimestamp                   time.Time
				ActionsEnabled                          bool
				AlarmActions                            []string `xml:"AlarmActions>member"`
			} `xml:"DescribeAlarmsResult>MetricAlarms>member"`
		}
		if err := a.postForm(ctx, cloudWatch, cloudWatchVersion, "DescribeAlarms", form, &page); err != nil {
			return all, err
		}
		for _, m := range page.Alarms {
			all = append(all, Alarm{
				Name: m.AlarmName, State: m.StateValue, Description: m.AlarmDescription, StateUpdatedAt: m.StateUpdatedTimestamp,
				HasActions: m.ActionsEnabled && len(m.AlarmActions) > 0,
			})
		}
	}
	return all, nil
}

// Invocations is how often a function was invoked between two moments. What has
// happened in the last minutes may not have been counted yet.
func (a *Account) Invocations(ctx context.Context, function string, from, to time.Time) (int, error) {
	var found struct {
		Sums []float64 `xml:"GetMetricStatisticsResult>Datapoints>member>Sum"`
	}
	err := a.postForm(ctx, cloudWatch, cloudWatchVersion, "GetMetricStatistics", url.Values{
		"Namespace": {"AWS/Lambda"}, "MetricName": {"Invocations"}, "Period": {"60"}, "Statistics.member.1": {"Sum"},
		"Dimensions.member.1.Name": {"FunctionName"}, "Dimensions.member.1.Value": {function},
		"StartTime": {from.UTC().Format(time.RFC3339)}, "EndTime": {to.UTC().Format(time.RFC3339)},
	}, &found)
	n := 0.0
	for _, sum := range found.Sums {
		n += sum
	}
	return int(n), err
}
