package wire

// Attribute is one message attribute, or the one system attribute that a
// client may send (AWSTraceHeader).
type Attribute struct {
	DataType    string  `json:"DataType"` // String, Number or Binary, with an optional ".suffix"
	StringValue *string `json:"StringValue,omitempty"`
	BinaryValue []byte  `json:"BinaryValue,omitempty"`
}

// SendEntry is one message to send, alone or in a batch.
type SendEntry struct {
	ID                      string               `json:"Id"`
	MessageBody             *string              `json:"MessageBody"`
	DelaySeconds            *int                 `json:"DelaySeconds"`
	MessageAttributes       map[string]Attribute `json:"MessageAttributes"`
	MessageSystemAttributes map[string]Attribute `json:"MessageSystemAttributes"`
	MessageGroupID          string               `json:"MessageGroupId"`
	MessageDeduplicationID  *string              `json:"MessageDeduplicationId"`
}

// SendMessage is the request of that name.
type SendMessage struct {
	QueueURL string `json:"QueueUrl"`
	SendEntry
}

// SendMessageBatch is the request of that name.
type SendMessageBatch struct {
	QueueURL string      `json:"QueueUrl"`
	Entries  []SendEntry `json:"Entries"`
}

// Sent answers for one message.
type Sent struct {
	ID             string `json:"Id,omitempty"` // in batches only
	MessageID      string `json:"MessageId"`
	BodySum        string `json:"MD5OfMessageBody"`
	AttributesSum  string `json:"MD5OfMessageAttributes,omitempty"`
	SystemSum      string `json:"MD5OfMessageSystemAttributes,omitempty"`
	SequenceNumber string `json:"SequenceNumber,omitempty"` // FIFO queues only
}

// Failure is one entry of a batch that was refused.
type Failure struct {
	ID          string `json:"Id"`
	Code        string `json:"Code"`
	Message     string `json:"Message"`
	SenderFault bool   `json:"SenderFault"`
}

// Done is one entry of a batch that has nothing to tell but its success.
type Done struct {
	ID string `json:"Id"`
}

// BatchReply answers a batch; T is [Sent] or [Done].
type BatchReply[T any] struct {
	Successful []T       `json:"Successful"`
	Failed     []Failure `json:"Failed"`
}

// ReceiveMessage is the request of that name.
type ReceiveMessage struct {
	QueueURL                    string   `json:"QueueUrl"`
	MaxNumberOfMessages         *int     `json:"MaxNumberOfMessages"`
	WaitTimeSeconds             *int     `json:"WaitTimeSeconds"`
	VisibilityTimeout           *int     `json:"VisibilityTimeout"`
	AttributeNames              []string `json:"AttributeNames"` // the older name of the next field
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames"`
	MessageAttributeNames       []string `json:"MessageAttributeNames"`
}

// Message is one delivery of a message.
type Message struct {
	MessageID         string               `json:"MessageId"`
	ReceiptHandle     string               `json:"ReceiptHandle"`
	Body              string               `json:"Body"`
	BodySum           string               `json:"MD5OfBody"`
	Attributes        map[string]string    `json:"Attributes,omitempty"`
	MessageAttributes map[string]Attribute `json:"MessageAttributes,omitempty"`
	AttributesSum     string               `json:"MD5OfMessageAttributes,omitempty"`
}

// Received answers ReceiveMessage.
type Received struct {
	Messages []Message `json:"Messages,omitempty"`
}

// Receipt names a delivery, to delete it or to change its visibility.
type Receipt struct {
	ID                string `json:"Id"`
	ReceiptHandle     string `json:"ReceiptHandle"`
	VisibilityTimeout *int   `json:"VisibilityTimeout"`
}

// OneReceipt is DeleteMessage or ChangeMessageVisibility.
type OneReceipt struct {
	QueueURL string `json:"QueueUrl"`
	Receipt
}

// Receipts is DeleteMessageBatch or ChangeMessageVisibilityBatch.
type Receipts struct {
	QueueURL string    `json:"QueueUrl"`
	Entries  []Receipt `json:"Entries"`
}

// Queue is every request about a queue as a whole; each uses some fields.
type Queue struct {
	QueueName      string            `json:"QueueName"`
	QueueURL       string            `json:"QueueUrl"`
	Attributes     map[string]string `json:"Attributes"`
	AttributeNames []string          `json:"AttributeNames"`
	Tags           map[string]string `json:"tags"` // "tags" in CreateQueue, "Tags" in TagQueue: decoding ignores case
	TagKeys        []string          `json:"TagKeys"`
}

// QueueURL answers CreateQueue and GetQueueUrl.
type QueueURL struct {
	QueueURL string `json:"QueueUrl"`
}

// Attributes answers GetQueueAttributes.
type Attributes struct {
	Attributes map[string]string `json:"Attributes,omitempty"`
}

// Tags answers ListQueueTags.
type Tags struct {
	Tags map[string]string `json:"Tags,omitempty"`
}

// List is ListQueues and ListDeadLetterSourceQueues.
type List struct {
	QueueURL        string `json:"QueueUrl"`
	QueueNamePrefix string `json:"QueueNamePrefix"`
	MaxResults      int    `json:"MaxResults"`
	NextToken       string `json:"NextToken"`
}

// QueueURLs answers ListQueues.
type QueueURLs struct {
	QueueURLs []string `json:"QueueUrls,omitempty"`
	NextToken string   `json:"NextToken,omitempty"`
}

// SourceQueues answers ListDeadLetterSourceQueues, whose one field begins with
// a small letter.
type SourceQueues struct {
	QueueURLs []string `json:"queueUrls"`
	NextToken string   `json:"NextToken,omitempty"`
}

// MoveTask is StartMessageMoveTask, ListMessageMoveTasks, CancelMessageMoveTask.
type MoveTask struct {
	SourceARN      string `json:"SourceArn"`
	DestinationARN string `json:"DestinationArn"`
	TaskHandle     string `json:"TaskHandle"`
	MaxResults     int    `json:"MaxResults"`
}

// TaskStarted answers StartMessageMoveTask.
type TaskStarted struct {
	TaskHandle string `json:"TaskHandle"`
}

// TaskResult is one move of messages out of a dead-letter queue.
type TaskResult struct {
	Status         string `json:"Status"`
	SourceARN      string `json:"SourceArn"`
	DestinationARN string `json:"DestinationArn,omitempty"`
	Moved          int    `json:"ApproximateNumberOfMessagesMoved"`
	ToMove         int    `json:"ApproximateNumberOfMessagesToMove"`
	StartedMillis  int64  `json:"StartedTimestamp"`
}

// Tasks answers ListMessageMoveTasks.
type Tasks struct {
	Results []TaskResult `json:"Results"`
}

// Nothing answers what has no answer but success.
type Nothing struct{}
