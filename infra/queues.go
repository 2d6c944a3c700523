package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
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
	// deadLetterDays is the longest retention of SQS, so that there is time to find the
	// cause and redrive.
	deadLetterDays = 14

	// messageDays is longer than any message is of use; the sweep replaces lost ones.
	messageDays = 4

	// messageBytes is the largest message of SQS, which a pack of many entities can need.
	messageBytes = 1 << 20
)

// newQueue creates a queue for a function with the timeout in seconds, from which it
// derives the visibility timeout. label is part of ids, name is the queue's name without
// NamePrefix.
func (e *Engine) newQueue(label, name string, timeout, maxReceive int) *Queue {
	dlq := e.newDLQ(label+"Dlq", name+topology.DLQSuffix, e.props.CustomerKey)
	queue := awssqs.NewQueue(e.Construct, jsii.String(label+"Queue"), &awssqs.QueueProps{
		QueueName:           e.physicalName(name),
		VisibilityTimeout:   awscdk.Duration_Seconds(jsii.Number(topology.VisibilityFactor * timeout)),
		RetentionPeriod:     awscdk.Duration_Days(jsii.Number(messageDays)),
		MaxMessageSizeBytes: jsii.Number(messageBytes),
		Encryption:          encryption(e.props.CustomerKey),
		EncryptionMasterKey: e.props.CustomerKey,
		EnforceSSL:          jsii.Bool(true),
		DeadLetterQueue:     &awssqs.DeadLetterQueue{Queue: dlq, MaxReceiveCount: jsii.Number(maxReceive)},
	})
	return &Queue{Queue: queue, DLQ: dlq, label: label}
}

// newDLQ creates a dead-letter queue.
func (e *Engine) newDLQ(id, name string, key awskms.IKey) awssqs.Queue {
	return awssqs.NewQueue(e.Construct, &id, &awssqs.QueueProps{
		QueueName:           e.physicalName(name),
		RetentionPeriod:     awscdk.Duration_Days(jsii.Number(deadLetterDays)),
		MaxMessageSizeBytes: jsii.Number(messageBytes),
		Encryption:          encryption(key),
		EncryptionMasterKey: key,
		EnforceSSL:          jsii.Bool(true),
	})
}

func encryption(key awskms.IKey) awssqs.QueueEncryption {
	if key != nil {
		return awssqs.QueueEncryption_KMS
	}
	return awssqs.QueueEncryption_SQS_MANAGED
}
