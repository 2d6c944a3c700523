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
	// deadLetterDays is the longest retention of SQS, which leaves time to find the cause and
	// redrive. It counts from when the message was first sent, not from when it became a dead
	// letter.
	deadLetterDays = 14

	// messageDays is longer than any message is useful; the sweep replaces lost ones.
	messageDays = 4

	// messageBytes is the largest message of SQS, which a pack of many entities may need.
	messageBytes = 1 << 20
)

// newQueue creates a queue for a function with the timeout in seconds, from which it
// derives the visibility timeout. label is part of ids, name is the queue's name without
// NamePrefix.
func (e *Engine) newQueue(label, name string, timeout, maxReceive int) *Queue {
	return e.newNamedQueue(label, e.physicalName(name), e.physicalName(name+topology.DLQSuffix), timeout, maxReceive)
}

// newNamedQueue does the same with physical names; nil lets CloudFormation generate them. Only if
// the name of a queue is known can its dead-letter queue admit it as its only source: otherwise the
// two would refer to each other.
func (e *Engine) newNamedQueue(label string, name, dlqName *string, timeout, maxReceive int) *Queue {
	var source *awssqs.RedriveAllowPolicy
	if name != nil {
		arn := awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{Service: jsii.String("sqs"), Resource: name})
		known := awssqs.Queue_FromQueueArn(e.Construct, jsii.String(label+"Source"), arn)
		source = &awssqs.RedriveAllowPolicy{RedrivePermission: awssqs.RedrivePermission_BY_QUEUE, SourceQueues: &[]awssqs.IQueue{known}}
	}
	dlq := e.newDLQ(label+"Dlq", dlqName, e.props.CustomerKey, source)
	queue := awssqs.NewQueue(e.Construct, jsii.String(label+"Queue"), &awssqs.QueueProps{
		QueueName:           name,
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

// newDLQ creates a dead-letter queue. sources says which queues may use it; nil means any queue of
// the account.
func (e *Engine) newDLQ(id string, name *string, key awskms.IKey, sources *awssqs.RedriveAllowPolicy) awssqs.Queue {
	return awssqs.NewQueue(e.Construct, &id, &awssqs.QueueProps{
		QueueName:           name,
		RedriveAllowPolicy:  sources,
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
