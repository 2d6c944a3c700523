package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// DynamoDB is killed during writes and must keep every acknowledged write: conditional
// writes are counted exactly, and transactions are complete. Without this, the results
// after a kill would prove nothing about the product.
func TestDynamoDB_WritesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tables")
	const writers, rounds = 4, 3
	acknowledged := make([]int, writers) // by writer: its last acknowledged count
	for round := range rounds {
		p, err := dynamodb.Start(t.Context(), dynamodb.Options{Binary: testkit.Binary(t, "dynoxide"), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		client := newDynamoClient(p.Endpoint())
		if err := dynamodb.CreateTables(t.Context(), client, ""); err != nil {
			t.Fatal(err)
		}
		for w := range writers {
			n := readCount(t, client, "jobs", w)
			// A write with a lost reply may have been applied.
			if n != acknowledged[w] && n != acknowledged[w]+1 {
				t.Errorf("round %d: writer %d has %d acknowledged, and %d is stored", round, w, acknowledged[w], n)
			}
			if other := readCount(t, client, "locks", w); other != n {
				t.Errorf("round %d: incomplete transaction: %d and %d", round, n, other)
			}
			acknowledged[w] = n
		}
		var writing sync.WaitGroup
		var done atomic.Int32
		enough := make(chan struct{})
		for w := range writers {
			writing.Go(func() {
				for {
					if err := increment(t.Context(), client, w, acknowledged[w]); err != nil {
						return // DynamoDB has been killed
					}
					acknowledged[w]++
					if done.Add(1) == 100 {
						close(enough)
					}
				}
			})
		}
		<-enough
		if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		writing.Wait()
	}
}

func newDynamoClient(endpoint string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

func counterKey(w int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("writer-", w)}, "sk": &types.AttributeValueMemberS{Value: "count"},
	}
}

// increment raises a writer's count by one in two tables, in both or in none.
func increment(ctx context.Context, client *sdk.Client, w, current int) error {
	var items []types.TransactWriteItem
	for _, table := range []string{"jobs", "locks"} {
		u := &types.Update{
			TableName: aws.String(table), Key: counterKey(w), UpdateExpression: aws.String("SET n = :next"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":next": numberValue(current + 1)},
		}
		if current > 0 {
			u.ConditionExpression = aws.String("n = :current")
			u.ExpressionAttributeValues[":current"] = numberValue(current)
		}
		items = append(items, types.TransactWriteItem{Update: u})
	}
	_, err := client.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: items})
	return err
}

func numberValue(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
}

func readCount(t *testing.T, client *sdk.Client, table string, w int) int {
	t.Helper()
	got, err := client.GetItem(t.Context(), &sdk.GetItemInput{TableName: &table, Key: counterKey(w), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := got.Item["n"].(*types.AttributeValueMemberN); ok {
		found, err := strconv.Atoi(n.Value)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	return 0
}
