package ports_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// A family that began under the release before goes on: its item has ids and no count, and each id
// is one execution.
func TestDynamoStore_CountsDescendantsOfAnOldFamily(t *testing.T) {
	f := &faultInjector{}
	const tenant, root = "old", "root"
	_, err := openClient(f).PutItem(t.Context(), &awsdynamodb.PutItemInput{TableName: aws.String(dynamodb.TableName("kit-", topology.TableExecutions)), Item: map[string]types.AttributeValue{
		topology.AttrPK: &types.AttributeValueMemberS{Value: table.TenantPrefix(tenant) + root}, topology.AttrSK: &types.AttributeValueMemberS{Value: "descendants"},
		"ids": &types.AttributeValueMemberSS{Value: []string{"one", "two"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	v := openView(f, new(cost.Meter))
	for _, c := range []struct {
		as    string
		limit int
		want  bool
	}{{"three", 2, false}, {"three", 3, true}, {"one", 3, true}, {"four", 3, false}} {
		if ok, err := v.Store.CountDescendants(t.Context(), tenant, root, c.as, 1, c.limit); err != nil || ok != c.want {
			t.Errorf("%+v: %v, %v", c, ok, err)
		}
	}
}
