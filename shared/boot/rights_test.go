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

// A process that is told which function it is goes no further than the function's
// role: what is refused never leaves it.
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
		function, what string
		do             func(*awsdynamodb.Client) error
		allowed        bool
	}{
		{"worker", "a pack", func(db *awsdynamodb.Client) error { return get(db, "t-jobs") }, true},
		{"worker", "an execution", func(db *awsdynamodb.Client) error { return get(db, "t-executions") }, false},
		{"worker", "a lock", func(db *awsdynamodb.Client) error { return get(db, "t-locks") }, false},
		{"worker", "a table of nobody's", func(db *awsdynamodb.Client) error { return get(db, "other") }, false},
		{"worker", "several packs", many("t-jobs"), false},
		{"lifecycle", "several locks", many("t-locks"), true},
		{"sweeper", "an execution among others", many("t-executions", "t-locks"), false},
		{"sweeper", "what is due", through("t-executions", topology.IndexDue.Name), true},
		{"sweeper", "the table under the index", through("t-executions", ""), false},
		{"lifecycle", "what is due", through("t-executions", topology.IndexDue.Name), false},
		{"api", "deleting", func(db *awsdynamodb.Client) error {
			_, err := db.DeleteItem(ctx, &awsdynamodb.DeleteItemInput{TableName: aws.String("t-registry"), Key: key})
			return err
		}, false},
		{"", "anything", func(db *awsdynamodb.Client) error { return get(db, "t-locks") }, true},
	} {
		t.Setenv(topology.EnvFunction, c.function)
		db := awsdynamodb.New(awsdynamodb.Options{
			BaseEndpoint: &server.URL, Region: "here", Credentials: aws.AnonymousCredentials{},
		}, enforceRights)
		before := reached
		err := c.do(db)
		switch {
		case c.allowed && (err != nil || reached == before):
			t.Errorf("%s, %s: %v", c.function, c.what, err)
		case !c.allowed && (err == nil || !strings.Contains(err.Error(), "AccessDeniedException") || reached > before):
			t.Errorf("%s, %s: %v, and the service was asked %d times", c.function, c.what, err, reached-before)
		}
	}
}
