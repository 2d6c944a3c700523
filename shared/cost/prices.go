package cost

// Prices are list prices in US dollars.
type Prices struct {
	Date   string // when they were last compared with the source, ISO 8601
	Region string
	Source string

	WriteUnits  float64 // per million write request units, on demand
	ReadUnits   float64 // per million read request units, on demand
	Queue       float64 // per million requests of 64 KB, standard queue
	Invocations float64 // per million invocations
	GBSecond    float64 // per gigabyte-second, arm64

	// Per month.
	TableGB   float64 // per gigabyte in a table or an index
	BackupGB  float64 // per gigabyte of a table with point-in-time recovery
	LogGB     float64 // per gigabyte written to a log, billed once
	Alarm     float64 // per alarm on one metric
	Dashboard float64
	Metric    float64 // per custom metric
}

// Current is the price table of all bills. It ignores free tiers. The prices of CloudWatch were
// compared with reviews of February to June 2026 that quote its page.
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

// Only the platform measures how long functions take, so bills estimate it. The seconds come from
// bench TIMES=1, with responses of DynamoDB and SQS after 5 ms and the share of a processor that a
// function with this memory has (docs/cost.md), fitted to an execution over one device and one over
// 1,000. The time of blocks comes on top.
const (
	functionGB        = 0.5
	invocationSeconds = 0.03
	writeSeconds      = 0.002 // for each write unit: the work on what is written
	sweeperSeconds    = 0.1   // assumed
)
