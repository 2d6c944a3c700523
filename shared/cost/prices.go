package cost

// Prices are list prices in US dollars.
type Prices struct {
	Date   string // when they were last compared with their source, ISO 8601
	Region string
	Source string

	WriteUnits  float64 // a million write request units, on demand
	ReadUnits   float64 // a million read request units, on demand
	Queue       float64 // a million requests of 64 KB, standard queue
	Invocations float64 // a million invocations
	GBSecond    float64 // a gigabyte for a second, arm64

	// What is paid for by the month.
	TableGB   float64 // a gigabyte in a table, or in an index of it
	BackupGB  float64 // a gigabyte of a table with point-in-time recovery
	LogGB     float64 // a gigabyte written to a log, once
	Alarm     float64 // an alarm on one metric
	Dashboard float64
	Metric    float64 // a metric of one's own
}

// Current is the price table that bills are made with. Free tiers are left out.
// What CloudWatch asks was compared with what reviews of February to June 2026
// quote of its page.
var Current = Prices{
	Date:   "2026-11-21",
	Region: "us-east-1",
	Source: "aws.amazon.com/dynamodb/pricing/on-demand, aws.amazon.com/sqs/pricing, aws.amazon.com/lambda/pricing, aws.amazon.com/cloudwatch/pricing",

	WriteUnits:  0.625,
	ReadUnits:   0.125,
	Queue:       0.40,
	Invocations: 0.20,
	GBSecond:    0.0000133334,

	TableGB:   0.25,
	BackupGB:  0.20,
	LogGB:     0.50,
	Alarm:     0.10,
	Dashboard: 3.00,
	Metric:    0.30,
}

// The average invocation that a bill assumes, since the platform, and not the
// handler, measures what is billed: memory in gigabytes and time in seconds.
const (
	assumedGB      = 0.5
	assumedSeconds = 0.1
)
