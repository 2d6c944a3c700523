package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Table is a DynamoDB table.
type Table struct {
	Status              string
	Indexes             map[string]string // status by index name
	DeletionProtected   bool
	PointInTimeRecovery bool
	TTLAttribute        string // empty if items do not expire
}

// Table reads a table by its name.
func (a *Account) Table(ctx context.Context, name string) (Table, error) {
	out, err := a.dynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return Table{}, err
	}
	t := Table{
		Status: string(out.Table.TableStatus), Indexes: map[string]string{}, DeletionProtected: aws.ToBool(out.Table.DeletionProtectionEnabled),
	}
	for _, i := range out.Table.GlobalSecondaryIndexes {
		t.Indexes[aws.ToString(i.IndexName)] = string(i.IndexStatus)
	}
	backups, err := a.dynamoDB.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil {
		return t, err
	}
	if d := backups.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil {
		t.PointInTimeRecovery = d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
	}
	ttl, err := a.dynamoDB.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return t, err
	}
	if d := ttl.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		t.TTLAttribute = aws.ToString(d.AttributeName)
	}
	return t, nil
}
