package boot

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// A process that knows which function it is makes only the calls that the function's
// role allows; a refused call is never sent.
func TestEnforceRights_RefusesWhatRoleCannotDo(t *testing.T) {
	for role, key := range topology.TableEnv {
		t.Setenv(key, "t-"+role)
	}
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached++
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	ctx, key := context.Background(), map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}
	get := func(db *awsdynamodb.Client, table string) error {
		_, err := db.GetItem(ctx, &awsdynamodb.GetItemInput{TableName: &table, Key: key})
		return err
	}
	many := func(tables ...string) func(*awsdynamodb.Client) error {
		in := &awsdynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{}}
		for _, table := range tables {
			in.RequestItems[table] = types.KeysAndAttributes{Keys: []map[string]types.AttributeValue{key}}
		}
		return func(db *awsdynamodb.Client) error { _, err := db.BatchGetItem(ctx, in); return err }
	}
	through := func(table, index string) func(*awsdynamodb.Client) error {
		in := &awsdynamodb.QueryInput{TableName: &table, KeyConditionExpression: aws.String("pk = :pk")}
		if index != "" {
			in.IndexName = &index
		}
		return func(db *awsdynamodb.Client) error { _, err := db.Query(ctx, in); return err }
	}
	for _, c := range []struct {
		function, name string
		do             func(*awsdynamodb.Client) error
		allowed        bool
	}{
		{"worker", "a pack", func(db *awsdynamodb.Client) error { return get(db, "t-jobs") }, true},
		{"worker", "an execution", func(db *awsdynamodb.Client) error { return get(db, "t-executions") }, false},
		{"worker", "a lock", func(db *awsdynamodb.Client) error { return get(db, "t-locks") }, false},
		{"worker", "an unknown table", func(db *awsdynamodb.Client) error { return get(db, "other") }, false},
		{"worker", "a batch of packs", many("t-jobs"), false},
		{"lifecycle", "a batch of locks", many("t-locks"), true},
		{"sweeper", "a batch with an execution", many("t-executions", "t-locks"), false},
		{"sweeper", "the index of due executions", through("t-executions", topology.IndexDue.Name), true},
		{"sweeper", "the table of the index", through("t-executions", ""), false},
		{"lifecycle", "the index of due executions", through("t-executions", topology.IndexDue.Name), false},
		{"api", "a delete", func(db *awsdynamodb.Client) error {
			_, err := db.DeleteItem(ctx, &awsdynamodb.DeleteItemInput{TableName: aws.String("t-registry"), Key: key})
			return err
		}, false},
		{"", "a lock", func(db *awsdynamodb.Client) error { return get(db, "t-locks") }, true},
	} {
		t.Setenv(topology.EnvFunction, c.function)
		db := awsdynamodb.New(awsdynamodb.Options{
			BaseEndpoint: &server.URL, Region: "here", Credentials: aws.AnonymousCredentials{},
		}, enforceRights)
		before := reached
		err := c.do(db)
		switch {
		case c.allowed && (err != nil || reached == before):
			t.Errorf("%s, %s: %v", c.function, c.name, err)
		case !c.allowed && (err == nil || !strings.Contains(err.Error(), "AccessDeniedException") || reached > before):
			t.Errorf("%s, %s: %v after %d requests", c.function, c.name, err, reached-before)
		}
	}
}
