package sqs

// messageAttribute is one message attribute, or the one system attribute that a
// client may send (AWSTraceHeader).
type messageAttribute struct {
	DataType    string  `json:"DataType"` // String, Number or Binary, with an optional ".suffix"
	StringValue *string `json:"StringValue,omitempty"`
	BinaryValue []byte  `json:"BinaryValue,omitempty"`
}

// sendMessageEntry is one message to send, alone or in a batch.
type sendMessageEntry struct {
	ID                      string                      `json:"Id"`
	MessageBody             *string                     `json:"MessageBody"`
	DelaySeconds            *int                        `json:"DelaySeconds"`
	MessageAttributes       map[string]messageAttribute `json:"MessageAttributes"`
	MessageSystemAttributes map[string]messageAttribute `json:"MessageSystemAttributes"`
	MessageGroupID          string                      `json:"MessageGroupId"`
	MessageDeduplicationID  *string                     `json:"MessageDeduplicationId"`
}

// sendMessageRequest is the request of that name.
type sendMessageRequest struct {
	QueueURL string `json:"QueueUrl"`
	sendMessageEntry
}

// sendMessageBatchRequest is the request of that name.
type sendMessageBatchRequest struct {
	QueueURL string             `json:"QueueUrl"`
	Entries  []sendMessageEntry `json:"Entries"`
}

// sendMessageResult answers for one message.
type sendMessageResult struct {
	ID                  string `json:"Id,omitempty"` // in batches only
	MessageID           string `json:"MessageId"`
	BodyMD5             string `json:"MD5OfMessageBody"`
	AttributesMD5       string `json:"MD5OfMessageAttributes,omitempty"`
	SystemAttributesMD5 string `json:"MD5OfMessageSystemAttributes,omitempty"`
	SequenceNumber      string `json:"SequenceNumber,omitempty"` // FIFO queues only
}

// batchErrorEntry is one entry of a batch that was refused.
type batchErrorEntry struct {
	ID          string `json:"Id"`
	Code        string `json:"Code"`
	Message     string `json:"Message"`
	SenderFault bool   `json:"SenderFault"`
}

// batchResultEntry is one entry of a batch that has nothing to tell but its success.
type batchResultEntry struct {
	ID string `json:"Id"`
}

// batchResult answers a batch; T is [Sent] or [Done].
type batchResult[T any] struct {
	Successful []T               `json:"Successful"`
	Failed     []batchErrorEntry `json:"Failed"`
}

// receiveMessageRequest is the request of that name.
type receiveMessageRequest struct {
	QueueURL                    string   `json:"QueueUrl"`
	MaxNumberOfMessages         *int     `json:"MaxNumberOfMessages"`
	WaitTimeSeconds             *int     `json:"WaitTimeSeconds"`
	VisibilityTimeout           *int     `json:"VisibilityTimeout"`
	AttributeNames              []string `json:"AttributeNames"` // the older name of the next field
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames"`
	MessageAttributeNames       []string `json:"MessageAttributeNames"`
}

// receivedMessage is one delivery of a message.
type receivedMessage struct {
	MessageID         string                      `json:"MessageId"`
	ReceiptHandle     string                      `json:"ReceiptHandle"`
	Body              string                      `json:"Body"`
	BodyMD5           string                      `json:"MD5OfBody"`
	Attributes        map[string]string           `json:"Attributes,omitempty"`
	MessageAttributes map[string]messageAttribute `json:"MessageAttributes,omitempty"`
	AttributesMD5     string                      `json:"MD5OfMessageAttributes,omitempty"`
}

// receiveMessageResult answers receiveMessageRequest.
type receiveMessageResult struct {
	Messages []receivedMessage `json:"Messages,omitempty"`
}

// receiptEntry names a delivery, to delete it or to change its visibility.
type receiptEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string `json:"ReceiptHandle"`
	VisibilityTimeout *int   `json:"VisibilityTimeout"`
}

// receiptRequest is DeleteMessage or ChangeMessageVisibility.
type receiptRequest struct {
	QueueURL string `json:"QueueUrl"`
	receiptEntry
}

// receiptBatchRequest is DeleteMessageBatch or ChangeMessageVisibilityBatch.
type receiptBatchRequest struct {
	QueueURL string         `json:"QueueUrl"`
	Entries  []receiptEntry `json:"Entries"`
}

// queueRequest is every request about a queue as a whole; each uses some fields.
type queueRequest struct {
	QueueName      string            `json:"QueueName"`
	QueueURL       string            `json:"QueueUrl"`
	Attributes     map[string]string `json:"Attributes"`
	AttributeNames []string          `json:"AttributeNames"`
	Tags           map[string]string `json:"tags"` // "tags" in CreateQueue, "Tags" in TagQueue: decoding ignores case
	TagKeys        []string          `json:"TagKeys"`
}

// queueURLResult answers CreateQueue and GetQueueUrl.
type queueURLResult struct {
	QueueURL string `json:"QueueUrl"`
}

// attributesResult answers GetQueueAttributes.
type attributesResult struct {
	Attributes map[string]string `json:"Attributes,omitempty"`
}

// tagsResult answers ListQueueTags.
type tagsResult struct {
	Tags map[string]string `json:"Tags,omitempty"`
}

// listRequest is ListQueues and ListDeadLetterSourceQueues.
type listRequest struct {
	QueueURL        string `json:"QueueUrl"`
	QueueNamePrefix string `json:"QueueNamePrefix"`
	MaxResults      int    `json:"MaxResults"`
	NextToken       string `json:"NextToken"`
}

// listQueuesResult answers ListQueues.
type listQueuesResult struct {
	QueueURLs []string `json:"QueueUrls,omitempty"`
	NextToken string   `json:"NextToken,omitempty"`
}

// deadLetterSourcesResult answers ListDeadLetterSourceQueues, whose one field begins with
// a small letter.
type deadLetterSourcesResult struct {
	QueueURLs []string `json:"queueUrls"`
	NextToken string   `json:"NextToken,omitempty"`
}

// moveTaskRequest is StartMessageMoveTask, ListMessageMoveTasks, CancelMessageMoveTask.
type moveTaskRequest struct {
	SourceARN      string `json:"SourceArn"`
	DestinationARN string `json:"DestinationArn"`
	TaskHandle     string `json:"TaskHandle"`
	MaxResults     int    `json:"MaxResults"`
}

// startMoveTaskResult answers StartMessageMoveTask.
type startMoveTaskResult struct {
	TaskHandle string `json:"TaskHandle"`
}

// moveTaskResult is one move of messages out of a dead-letter queue.
type moveTaskResult struct {
	Status         string `json:"Status"`
	SourceARN      string `json:"SourceArn"`
	DestinationARN string `json:"DestinationArn,omitempty"`
	Moved          int    `json:"ApproximateNumberOfMessagesMoved"`
	ToMove         int    `json:"ApproximateNumberOfMessagesToMove"`
	StartedMillis  int64  `json:"StartedTimestamp"`
}

// listMoveTasksResult answers ListMessageMoveTasks.
type listMoveTasksResult struct {
	Results []moveTaskResult `json:"Results"`
}

// emptyResult answers what has no answer but success.
type emptyResult struct{}
