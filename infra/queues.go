package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// Queue is a standard queue with its dead-letter queue.
type Queue struct {
	awssqs.Queue
	DLQ awssqs.Queue

	label string
}

const (
	// deadLetterDays is the longest that SQS keeps a message: time to come back
	// from a holiday, repair and redrive.
	deadLetterDays = 14

	// messageDays is longer than any message is of use; the alarm clock replaces
	// one that is lost.
	messageDays = 4

	// messageBytes is the largest message that SQS takes, which a pack of many
	// entities can need.
	messageBytes = 1 << 20
)

// newQueue makes a queue in front of a function, whose time-out its visibility
// time-out follows.
func (e *Engine) newQueue(name, function string, maxReceive int) *Queue {
	dlq := e.newDeadLetters(name + "Dlq")
	visibility := topology.VisibilityFactor * topology.FunctionTimeout[function]
	queue := awssqs.NewQueue(e.Construct, jsii.String(name+"Queue"), &awssqs.QueueProps{
		VisibilityTimeout:   awscdk.Duration_Seconds(jsii.Number(visibility)),
		RetentionPeriod:     awscdk.Duration_Days(jsii.Number(messageDays)),
		MaxMessageSizeBytes: jsii.Number(messageBytes),
		Encryption:          awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:          jsii.Bool(true),
		DeadLetterQueue:     &awssqs.DeadLetterQueue{Queue: dlq, MaxReceiveCount: jsii.Number(maxReceive)},
	})
	return &Queue{Queue: queue, DLQ: dlq, label: name}
}

// newDeadLetters makes a queue that somebody has to look at when it is not empty.
func (e *Engine) newDeadLetters(name string) awssqs.Queue {
	return awssqs.NewQueue(e.Construct, &name, &awssqs.QueueProps{
		RetentionPeriod:     awscdk.Duration_Days(jsii.Number(deadLetterDays)),
		MaxMessageSizeBytes: jsii.Number(messageBytes),
		Encryption:          awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:          jsii.Bool(true),
	})
}
