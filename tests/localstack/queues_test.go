package localstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const region = "us-east-1"

func sqsClient() *sqs.Client {
	return sqs.New(sqs.Options{Region: region, BaseEndpoint: aws.String(localStack.URL()), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

func dynamodbClient() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: aws.String(localStack.URL()), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

// queuePair is a queue of a stack with its dead-letter queue.
type queuePair struct{ url, dlq string }

// queue returns the queue whose outputs start with the label.
func (s *deployedStack) queue(t *testing.T, label string) *queuePair {
	t.Helper()
	return &queuePair{s.output(t, label+"Url"), s.output(t, label+"DlqUrl")}
}

func attribute(t *testing.T, url string, name types.QueueAttributeName) string {
	t.Helper()
	out, err := sqsClient().GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{name}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes[string(name)]
}

// deadLetterAfterOneReceive makes a message a dead letter after one receive and 5 s. With
// the deployed settings that takes hours.
func (q *queuePair) deadLetterAfterOneReceive(t *testing.T) {
	t.Helper()
	policy, err := json.Marshal(map[string]string{
		"deadLetterTargetArn": attribute(t, q.dlq, types.QueueAttributeNameQueueArn), "maxReceiveCount": "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqsClient().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: map[string]string{
		string(types.QueueAttributeNameRedrivePolicy): string(policy), string(types.QueueAttributeNameVisibilityTimeout): "5",
	}}); err != nil {
		t.Fatal(err)
	}
}

// deadLetterCount returns the number of dead letters.
func (q *queuePair) deadLetterCount(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(attribute(t, q.dlq, types.QueueAttributeNameApproximateNumberOfMessages))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// purge deletes every message of the queue, also delayed ones.
func (q *queuePair) purge(t *testing.T) {
	t.Helper()
	if _, err := sqsClient().PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url}); err != nil {
		t.Fatal(err)
	}
}

// listResources lists the tables, queues and functions that exist.
func listResources(t *testing.T) (all []string) {
	t.Helper()
	tables, err := dynamodbClient().ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	queues, err := sqsClient().ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Get(localStack.URL() + "/2015-03-31/functions/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	var functions struct {
		Functions []struct{ FunctionName string }
	}
	if err := json.NewDecoder(reply.Body).Decode(&functions); err != nil {
		t.Fatal(err)
	}
	for _, f := range functions.Functions {
		all = append(all, f.FunctionName)
	}
	all = append(all, tables.TableNames...)
	for _, url := range queues.QueueUrls {
		all = append(all, fmt.Sprint("queue ", url))
	}
	return all
}
