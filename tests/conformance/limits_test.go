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

func filled(n int) value { return str(strings.Repeat("x", n)) }

func capacity(t *testing.T) {
	total := func(c *types.ConsumedCapacity) float64 {
		if c == nil {
			return -1
		}
		return aws.ToFloat64(c.CapacityUnits)
	}
	const asked = types.ReturnConsumedCapacityTotal
	big := plus(at(t, 1), "data", filled(2500))
	written := ok[*dynamodb.PutItemOutput](t)(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: big, ReturnConsumedCapacity: asked}))
	same(t, "units of a write of 2.5 KB", total(written.ConsumedCapacity), 3)
	for strong, units := range map[bool]float64{true: 1, false: 0.5} {
		read := ok[*dynamodb.GetItemOutput](t)(db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: at(t, 1), ConsistentRead: &strong, ReturnConsumedCapacity: asked}))
		same(t, "units of a read of 2.5 KB", total(read.ConsumedCapacity), units)
	}
	done := ok[*dynamodb.TransactWriteItemsOutput](t)(transact(t, "", putting(plus(at(t, 2), "data", filled(2500)), "")))
	same(t, "tables of a transaction", len(done.ConsumedCapacity), 1)
	same(t, "units of the same write in a transaction", total(&done.ConsumedCapacity[0]), 6)
}

func capacityByIndex(t *testing.T) {
	it := plus(at(t, 1), "colour", str(t.Name()), "weight", num(1), "data", filled(2500))
	c := ok[*dynamodb.PutItemOutput](t)(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})).ConsumedCapacity
	if c == nil || c.Table == nil {
		t.Fatalf("no breakdown: %+v", c)
	}
	same(t, "table", aws.ToFloat64(c.Table.CapacityUnits), 3)
	same(t, "index", aws.ToFloat64(c.GlobalSecondaryIndexes["all"].CapacityUnits), 3)
	same(t, "total", aws.ToFloat64(c.CapacityUnits), 6)
}

func tooLarge(t *testing.T) {
	refused(t, "a put of 401 KB", put(t, plus(at(t, 1), "data", filled(401<<10)), ""), "ValidationException")
	mustPut(t, plus(at(t, 2), "data", filled(350<<10)))
	_, err := update(t, at(t, 2), "SET more = :m", "", item{":m": filled(51 << 10)})
	refused(t, "an update to 401 KB", err, "ValidationException")
	same(t, "attributes afterwards", len(get(t, at(t, 2))), 3)
}

func invalid(t *testing.T) {
	refused(t, "an empty key", put(t, item{"pk": str(""), "sk": str("x")}, ""), "ValidationException")
	_, err := update(t, at(t, 1), "SET state = :v", "", item{":v": str("x")})
	refused(t, "a reserved word", err, "ValidationException")
	_, err = update(t, at(t, 1), "SET x = :v", "", item{":v": str("x"), ":w": str("x")})
	refused(t, "an unused value", err, "ValidationException")
	_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: item{"pk": str("x")}})
	refused(t, "half a key", err, "ValidationException")
	_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(run + "-none"), Key: at(t, 1)})
	refused(t, "no such table", err, "ResourceNotFoundException")
}

func timeToLiveSetting(t *testing.T) {
	name := run + "-ttl"
	makeTable(t, name, nil)
	ok[*dynamodb.UpdateTimeToLiveOutput](t)(db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	}))
	got := ok[*dynamodb.DescribeTimeToLiveOutput](t)(db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})).TimeToLiveDescription
	if got.TimeToLiveStatus != types.TimeToLiveStatusEnabled && got.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		t.Fatalf("status %s", got.TimeToLiveStatus)
	}
	same(t, "attribute", aws.ToString(got.AttributeName), "expires")
}

// AWS deletes an expired item within days, and until then reads show it. The
// pinned program never deletes it: the one feature it lacks. So nothing in the
// product may rely on the deletion; an expired item has to be recognised by
// whoever reads it. That is what is asserted: the item is still there with the
// pinned program (elsewhere it may be gone), and a condition on its time keeps
// it out.
func timeToLiveExpiry(t *testing.T) {
	name := run + "-expiry"
	makeTable(t, name, nil)
	ok[*dynamodb.UpdateTimeToLiveOutput](t)(db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	}))
	now := time.Now()
	for sort, expires := range map[string]time.Time{"past": now.Add(-time.Hour), "future": now.Add(time.Hour)} {
		ok[*dynamodb.PutItemOutput](t)(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: plus(at(t, sort), "expires", num(expires.Unix()))}))
	}
	read := func(filter *string, values item) int {
		return int(ok[*dynamodb.QueryOutput](t)(db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &name, KeyConditionExpression: aws.String("pk = :p"), FilterExpression: filter, ExpressionAttributeValues: plus(values, ":p", str(t.Name())),
		})).Count)
	}
	if n := read(nil, item{}); n != 2 && (ownDB || n != 1) {
		t.Fatalf("%d of 2 items are there", n)
	}
	same(t, "items that have not expired", read(aws.String("expires > :now"), item{":now": num(now.Unix())}), 1)
}

func streams(t *testing.T) {
	name := run + "-stream"
	makeTable(t, name, &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages})
	for _, n := range []int{1, 2} {
		ok[*dynamodb.PutItemOutput](t)(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: plus(at(t, 1), "n", num(n))}))
	}
	ok[*dynamodb.DeleteItemOutput](t)(db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: at(t, 1)}))
	arn := ok[*dynamodb.DescribeTableOutput](t)(db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})).Table.LatestStreamArn
	var described struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	askStream(t, "DescribeStream", map[string]any{"StreamArn": arn}, &described)
	var seen []string
	for _, shard := range described.StreamDescription.Shards {
		var iterator struct{ ShardIterator string }
		askStream(t, "GetShardIterator", map[string]any{"StreamArn": arn, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &iterator)
		var got struct {
			Records []struct {
				EventName string `json:"eventName"`
				Dynamodb  struct {
					OldImage, NewImage struct{ N struct{ N string } }
				} `json:"dynamodb"`
			}
		}
		askStream(t, "GetRecords", map[string]any{"ShardIterator": iterator.ShardIterator}, &got)
		for _, r := range got.Records {
			seen = append(seen, r.EventName+":"+r.Dynamodb.OldImage.N.N+">"+r.Dynamodb.NewImage.N.N)
		}
	}
	same(t, "events", strings.Join(seen, " "), "INSERT:>1 MODIFY:1>2 REMOVE:2>")
}

// askStream speaks to the streams' API, for which the product needs no client.
func askStream(t *testing.T, operation string, in, out any) {
	t.Helper()
	body := ok[[]byte](t)(json.Marshal(in))
	r := ok[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, endpointDB, bytes.NewReader(body)))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810."+operation)
	sum := sha256.Sum256(body)
	credentials := ok[aws.Credentials](t)(keys.Retrieve(t.Context()))
	if err := signer.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	reply := ok[*http.Response](t)(http.DefaultClient.Do(r))
	defer func() { _ = reply.Body.Close() }()
	text := ok[[]byte](t)(io.ReadAll(reply.Body))
	same(t, operation+" "+string(text), reply.StatusCode, http.StatusOK)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}
