package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func stringOfBytes(n int) attributeValue { return stringValue(strings.Repeat("x", n)) }

func consumedCapacity(t *testing.T) {
	total := func(c *types.ConsumedCapacity) float64 {
		if c == nil {
			return -1
		}
		return aws.ToFloat64(c.CapacityUnits)
	}
	const returnTotal = types.ReturnConsumedCapacityTotal
	big := withAttributes(itemKey(t, 1), "data", stringOfBytes(2500))
	written := must[*dynamodb.PutItemOutput](t)(dynamoClient.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: big, ReturnConsumedCapacity: returnTotal}))
	wantEqual(t, "units of a write of 2.5 KB", total(written.ConsumedCapacity), 3)
	for strong, units := range map[bool]float64{true: 1, false: 0.5} {
		read := must[*dynamodb.GetItemOutput](t)(dynamoClient.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: itemKey(t, 1), ConsistentRead: &strong, ReturnConsumedCapacity: returnTotal}))
		wantEqual(t, "units of a read of 2.5 KB", total(read.ConsumedCapacity), units)
	}
	done := must[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "", transactPut(withAttributes(itemKey(t, 2), "data", stringOfBytes(2500)), "")))
	wantEqual(t, "tables of a transaction", len(done.ConsumedCapacity), 1)
	wantEqual(t, "units of the same write in a transaction", total(&done.ConsumedCapacity[0]), 6)
}

func capacityByIndex(t *testing.T) {
	it := withAttributes(itemKey(t, 1), "colour", stringValue(t.Name()), "weight", numberValue(1), "data", stringOfBytes(2500))
	c := must[*dynamodb.PutItemOutput](t)(dynamoClient.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})).ConsumedCapacity
	if c == nil || c.Table == nil {
		t.Fatalf("no breakdown: %+v", c)
	}
	wantEqual(t, "table", aws.ToFloat64(c.Table.CapacityUnits), 3)
	wantEqual(t, "index", aws.ToFloat64(c.GlobalSecondaryIndexes["all"].CapacityUnits), 3)
	wantEqual(t, "total", aws.ToFloat64(c.CapacityUnits), 6)
}

func itemsOverLimit(t *testing.T) {
	wantErrorCode(t, "a put of 401 KB", putItem(t, withAttributes(itemKey(t, 1), "data", stringOfBytes(401<<10)), ""), "ValidationException")
	mustPutItem(t, withAttributes(itemKey(t, 2), "data", stringOfBytes(350<<10)))
	_, err := updateItem(t, itemKey(t, 2), "SET more = :m", "", attributeMap{":m": stringOfBytes(51 << 10)})
	wantErrorCode(t, "an update to 401 KB", err, "ValidationException")
	wantEqual(t, "attributes afterwards", len(getItem(t, itemKey(t, 2))), 3)
}

func invalidRequests(t *testing.T) {
	wantErrorCode(t, "an empty key", putItem(t, attributeMap{"pk": stringValue(""), "sk": stringValue("x")}, ""), "ValidationException")
	_, err := updateItem(t, itemKey(t, 1), "SET state = :v", "", attributeMap{":v": stringValue("x")})
	wantErrorCode(t, "a reserved word", err, "ValidationException")
	_, err = updateItem(t, itemKey(t, 1), "SET x = :v", "", attributeMap{":v": stringValue("x"), ":w": stringValue("x")})
	wantErrorCode(t, "an unused value", err, "ValidationException")
	_, err = dynamoClient.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: attributeMap{"pk": stringValue("x")}})
	wantErrorCode(t, "half a key", err, "ValidationException")
	_, err = dynamoClient.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(namePrefix + "-none"), Key: itemKey(t, 1)})
	wantErrorCode(t, "no such table", err, "ResourceNotFoundException")
}

func timeToLiveSetting(t *testing.T) {
	name := namePrefix + "-ttl"
	createTable(t, name, nil)
	must[*dynamodb.UpdateTimeToLiveOutput](t)(dynamoClient.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	}))
	got := must[*dynamodb.DescribeTimeToLiveOutput](t)(dynamoClient.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})).TimeToLiveDescription
	if got.TimeToLiveStatus != types.TimeToLiveStatusEnabled && got.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		t.Fatalf("status %s", got.TimeToLiveStatus)
	}
	wantEqual(t, "attribute", aws.ToString(got.AttributeName), "expires")
}

// AWS deletes an expired item within days; until then reads return it. Dynoxide never
// deletes it, the one feature it lacks. So the product must not rely on deletion: the
// reader has to recognise an expired item. The test checks that dynoxide still returns
// the item (elsewhere it may be gone) and that a filter on its time excludes it.
func timeToLiveExpiry(t *testing.T) {
	name := namePrefix + "-expiry"
	createTable(t, name, nil)
	must[*dynamodb.UpdateTimeToLiveOutput](t)(dynamoClient.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	}))
	now := time.Now()
	for sort, expires := range map[string]time.Time{"past": now.Add(-time.Hour), "future": now.Add(time.Hour)} {
		must[*dynamodb.PutItemOutput](t)(dynamoClient.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: withAttributes(itemKey(t, sort), "expires", numberValue(expires.Unix()))}))
	}
	read := func(filter *string, values attributeMap) int {
		return int(must[*dynamodb.QueryOutput](t)(dynamoClient.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &name, KeyConditionExpression: aws.String("pk = :p"), FilterExpression: filter, ExpressionAttributeValues: withAttributes(values, ":p", stringValue(t.Name())),
		})).Count)
	}
	if n := read(nil, attributeMap{}); n != 2 && (embeddedDB || n != 1) {
		t.Fatalf("read %d of 2 items", n)
	}
	wantEqual(t, "items that have not expired", read(aws.String("expires > :now"), attributeMap{":now": numberValue(now.Unix())}), 1)
}

func streams(t *testing.T) {
	name := namePrefix + "-stream"
	createTable(t, name, &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages})
	for _, n := range []int{1, 2} {
		must[*dynamodb.PutItemOutput](t)(dynamoClient.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: withAttributes(itemKey(t, 1), "n", numberValue(n))}))
	}
	must[*dynamodb.DeleteItemOutput](t)(dynamoClient.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: itemKey(t, 1)}))
	arn := must[*dynamodb.DescribeTableOutput](t)(dynamoClient.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})).Table.LatestStreamArn
	var described struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	callStreams(t, "DescribeStream", map[string]any{"StreamArn": arn}, &described)
	var seen []string
	for _, shard := range described.StreamDescription.Shards {
		var iterator struct{ ShardIterator string }
		callStreams(t, "GetShardIterator", map[string]any{"StreamArn": arn, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &iterator)
		var got struct {
			Records []struct {
				EventName string `json:"eventName"`
				Dynamodb  struct {
					OldImage, NewImage struct{ N struct{ N string } }
				} `json:"dynamodb"`
			}
		}
		callStreams(t, "GetRecords", map[string]any{"ShardIterator": iterator.ShardIterator}, &got)
		for _, r := range got.Records {
			seen = append(seen, r.EventName+":"+r.Dynamodb.OldImage.N.N+">"+r.Dynamodb.NewImage.N.N)
		}
	}
	wantEqual(t, "events", strings.Join(seen, " "), "INSERT:>1 MODIFY:1>2 REMOVE:2>")
}

// callStreams calls the API of streams; the product has no client for it.
func callStreams(t *testing.T, operation string, in, out any) {
	t.Helper()
	body := must[[]byte](t)(json.Marshal(in))
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, dynamoEndpoint, bytes.NewReader(body)))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810."+operation)
	sum := sha256.Sum256(body)
	credentials := must[aws.Credentials](t)(credentialsProvider.Retrieve(t.Context()))
	if err := signer.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	reply := must[*http.Response](t)(http.DefaultClient.Do(r))
	defer func() { _ = reply.Body.Close() }()
	text := must[[]byte](t)(io.ReadAll(reply.Body))
	wantEqual(t, operation+" "+string(text), reply.StatusCode, http.StatusOK)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}
