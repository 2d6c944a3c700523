package sqs

// messageAttribute is one attribute of a message.
type messageAttribute struct {
	DataType    string  `json:"DataType"` // String, Number or Binary, with an optional ".suffix"
	StringValue *string `json:"StringValue,omitempty"`
	BinaryValue []byte  `json:"BinaryValue,omitempty"`
}

// sendMessageEntry is one message to send, alone or in a batch. MessageGroupID
// names a tenant (fair queues) and orders nothing.
type sendMessageEntry struct {
	ID                string                      `json:"Id"`
	MessageBody       *string                     `json:"MessageBody"`
	DelaySeconds      *int                        `json:"DelaySeconds"`
	MessageAttributes map[string]messageAttribute `json:"MessageAttributes"`
	MessageGroupID    string                      `json:"MessageGroupId"`
}

type sendMessageRequest struct {
	QueueURL string `json:"QueueUrl"`
	sendMessageEntry
}

type sendMessageBatchRequest struct {
	QueueURL string             `json:"QueueUrl"`
	Entries  []sendMessageEntry `json:"Entries"`
}

// sendMessageResult is the reply for one message.
type sendMessageResult struct {
	ID            string `json:"Id,omitempty"` // in batches only
	MessageID     string `json:"MessageId"`
	BodyMD5       string `json:"MD5OfMessageBody"`
	AttributesMD5 string `json:"MD5OfMessageAttributes,omitempty"`
}

// batchErrorEntry is one rejected entry of a batch.
type batchErrorEntry struct {
	ID          string `json:"Id"`
	Code        string `json:"Code"`
	Message     string `json:"Message"`
	SenderFault bool   `json:"SenderFault"`
}

// batchResultEntry is one entry of a batch that succeeded without a value.
type batchResultEntry struct {
	ID string `json:"Id"`
}

// batchResult is the reply to a batch; T is sendMessageResult or batchResultEntry.
type batchResult[T any] struct {
	Successful []T               `json:"Successful"`
	Failed     []batchErrorEntry `json:"Failed"`
}

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

// queueRequest is any request about a whole queue; each uses some of the fields.
type queueRequest struct {
	QueueName      string            `json:"QueueName"`
	QueueURL       string            `json:"QueueUrl"`
	Attributes     map[string]string `json:"Attributes"`
	AttributeNames []string          `json:"AttributeNames"`
}

// queueURLResult is the reply to CreateQueue and GetQueueUrl.
type queueURLResult struct {
	QueueURL string `json:"QueueUrl"`
}

// attributesResult is the reply to GetQueueAttributes.
type attributesResult struct {
	Attributes map[string]string `json:"Attributes,omitempty"`
}

// emptyResult is the reply to an operation that returns nothing.
type emptyResult struct{}
