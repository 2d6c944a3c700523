package aws

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// Alarm is a CloudWatch alarm.
type Alarm struct {
	Name           string
	State          string // OK, ALARM or INSUFFICIENT_DATA
	Description    string
	StateUpdatedAt time.Time
	HasActions     bool // the alarm notifies somebody
}

// alarmsPerCall is the maximum of DescribeAlarms.
const alarmsPerCall = 100

// Alarms reads alarms by name. It leaves out those that do not exist.
func (a *Account) Alarms(ctx context.Context, names []string) ([]Alarm, error) {
	var all []Alarm
	for chunk := range slices.Chunk(names, alarmsPerCall) {
		out, err := a.cloudWatch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: chunk, MaxRecords: aws.Int32(alarmsPerCall)})
		if err != nil {
			return all, err
		}
		for _, m := range out.MetricAlarms {
			all = append(all, Alarm{
				Name: aws.ToString(m.AlarmName), State: string(m.StateValue), Description: aws.ToString(m.AlarmDescription),
				StateUpdatedAt: aws.ToTime(m.StateUpdatedTimestamp), HasActions: aws.ToBool(m.ActionsEnabled) && len(m.AlarmActions) > 0,
			})
		}
	}
	return all, nil
}

// Invocations returns how often a function was invoked between two times.
// CloudWatch may not have counted the last minutes yet.
func (a *Account) Invocations(ctx context.Context, function string, from, to time.Time) (int, error) {
	out, err := a.cloudWatch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: aws.String("AWS/Lambda"), MetricName: aws.String("Invocations"),
		Dimensions: []types.Dimension{{Name: aws.String("FunctionName"), Value: &function}},
		Statistics: []types.Statistic{types.StatisticSum}, Period: aws.Int32(60),
		StartTime: &from, EndTime: &to,
	})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range out.Datapoints {
		sum += aws.ToFloat64(p.Sum)
	}
	return int(sum), nil
}
