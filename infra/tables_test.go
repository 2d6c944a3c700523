package infra

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestTables_HaveKeysAndIndexes(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		for _, table := range x.byType(t, "AWS::DynamoDB::Table") {
			for path, want := range map[string]string{
				"BillingMode":                      "PAY_PER_REQUEST",
				"KeySchema":                        "AttributeName=pk,KeyType=HASH AttributeName=sk,KeyType=RANGE",
				"PointInTimeRecoverySpecification": "PointInTimeRecoveryEnabled=true",
				"TimeToLiveSpecification":          "AttributeName=ttl,Enabled=true",
			} {
				if got := render(table.property(path)); got != want {
					t.Errorf("%s: %s is %q, want %q", table.ID, path, got, want)
				}
			}
			indexes := table.property("GlobalSecondaryIndexes")
			want := ""
			switch {
			case table.hasID("TableExecutions"):
				want = "IndexName=by-status,KeySchema=AttributeName=statusKey,KeyType=HASH AttributeName=id,KeyType=RANGE,Projection=ProjectionType=KEYS_ONLY " +
					"IndexName=due,KeySchema=AttributeName=dueShard,KeyType=HASH AttributeName=dueAt,KeyType=RANGE,Projection=ProjectionType=KEYS_ONLY"
			case table.hasID("TableJobs"):
				want = "IndexName=workers-due,KeySchema=AttributeName=dueShard,KeyType=HASH AttributeName=dueAt,KeyType=RANGE,Projection=ProjectionType=KEYS_ONLY"
			case table.hasID("TableRegistry"):
				want = "IndexName=scheduled,KeySchema=AttributeName=dueShard,KeyType=HASH AttributeName=dueAt,KeyType=RANGE,Projection=ProjectionType=KEYS_ONLY"
			}
			if got := strings.ReplaceAll(render(indexes), maxThroughput+",", ""); got != want {
				t.Errorf("%s: indexes\n%s\nwant\n%s", table.ID, got, want)
			}
			if got := render(table.property("AttributeDefinitions")); want != "" && !strings.Contains(got, "AttributeName=dueAt,AttributeType=N") {
				t.Errorf("%s: dueAt is no number: %s", table.ID, got)
			}
		}
	})
}

const maxThroughput = "OnDemandThroughput=MaxReadRequestUnits=5000,MaxWriteRequestUnits=4000"

// A table that throttles while its index does not, or the other way round, would
// bound nothing: both have the ceiling, or none has.
func TestTables_LimitThroughput(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		want := ""
		if x == stacks()["options"] {
			want = maxThroughput
		}
		for _, table := range x.byType(t, "AWS::DynamoDB::Table") {
			for _, part := range append(asList(table.property("GlobalSecondaryIndexes")), any(table.Properties)) {
				if got := render(map[string]any{"OnDemandThroughput": propertyOf(part, "OnDemandThroughput")}); got != want && got != "OnDemandThroughput="+want {
					t.Errorf("%s: %s, want %q", table.ID, got, want)
				}
			}
		}
	})
}

func TestTables_RetainedInProd(t *testing.T) {
	for name, want := range map[string]struct{ policy, protected string }{
		"prod": {"Retain", "true"}, "dev": {"Delete", "false"}, "options": {"Retain", "true"},
	} {
		x := stacks()[name]
		tables := x.byType(t, "AWS::DynamoDB::Table")
		if len(tables) != len(topology.Tables) {
			t.Errorf("%s: %d tables", name, len(tables))
		}
		for _, table := range tables {
			if got := render(table.property("DeletionProtectionEnabled")); got != want.protected || table.DeletionPolicy != want.policy {
				t.Errorf("%s in %s: protected %s, deletion policy %s", table.ID, name, got, table.DeletionPolicy)
			}
		}
		for _, logs := range x.byType(t, "AWS::Logs::LogGroup") {
			if !strings.HasPrefix(logs.ID, "Engine") {
				continue // a user's own
			}
			policy := want.policy
			if policy == "Retain" {
				// Those of a stack that never came to be would be in the way of the next attempt.
				policy = "RetainExceptOnCreate"
			}
			if logs.DeletionPolicy != policy {
				t.Errorf("%s in %s: deletion policy %s", logs.ID, name, logs.DeletionPolicy)
			}
		}
	}
}

func TestLogs_HaveRetention(t *testing.T) {
	for name, days := range map[string]string{"prod": "90", "dev": "7", "pair": "7", "options": "90"} {
		for _, logs := range stacks()[name].byType(t, "AWS::Logs::LogGroup") {
			if got := render(logs.property("RetentionInDays")); got != days {
				t.Errorf("%s: %s is kept for %s days, want %s", name, logs.ID, got, days)
			}
		}
	}
}
