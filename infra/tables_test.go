package infra

import (
	"maps"
	"os"
	"regexp"
	"slices"
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
			if got := strings.ReplaceAll(strings.ReplaceAll(render(indexes), maxThroughput+",", ""), ",WarmThroughput=ReadUnitsPerSecond=20000,WriteUnitsPerSecond=10000", ""); got != want {
				t.Errorf("%s: indexes\n%s\nwant\n%s", table.ID, got, want)
			}
			if got := render(table.property("AttributeDefinitions")); want != "" && !strings.Contains(got, "AttributeName=dueAt,AttributeType=N") {
				t.Errorf("%s: dueAt is not a number: %s", table.ID, got)
			}
		}
	})
}

const maxThroughput = "OnDemandThroughput=MaxReadRequestUnits=5000,MaxWriteRequestUnits=4000"

// A table and its indexes have the same limit: one without a limit would make the other's
// useless.
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
				continue // of a user's function
			}
			policy := want.policy
			if policy == "Retain" {
				// The logs of a failed creation would be in the way of the next attempt.
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

// docs/uninstall.md lists exactly the resource types that outlive a stack.
func TestUninstallPage_ListsRetainedResources(t *testing.T) {
	retained := map[string]bool{}
	for _, r := range stacks()["prod"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			retained[r.Type] = true
		}
	}
	page, err := os.ReadFile("../docs/uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(AWS::[A-Za-z0-9:]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	if !maps.Equal(retained, documented) {
		t.Errorf("retained are %v, the page lists %v", slices.Sorted(maps.Keys(retained)), slices.Sorted(maps.Keys(documented)))
	}
	for _, r := range stacks()["dev"].Resources {
		if strings.HasPrefix(r.DeletionPolicy, "Retain") {
			t.Errorf("%s of stage dev outlives its stack", r.ID)
		}
	}
}

// With a prefix a new stack can import what the old one has left: CloudFormation imports
// resources with a physical name and a deletion policy. The only other resource left is
// the access log's group, which has another name in each stack.
func TestRetainedResources_CanBeImported(t *testing.T) {
	found := 0
	for _, r := range stacks()["options"].Resources {
		if !strings.HasPrefix(r.ID, "Engine") || !strings.HasPrefix(r.DeletionPolicy, "Retain") || r.hasID("ApiAccessLogs") {
			continue
		}
		found++
		if name, ok := r.property(nameProperties[r.Type]).(string); !ok || !strings.HasPrefix(name, "acme-") {
			t.Errorf("%s is retained and cannot be imported by its name %v", r.ID, r.property(nameProperties[r.Type]))
		}
	}
	if want := len(topology.Tables) + len(topology.Functions) + 2; found != want { // and the workers of two pools
		t.Errorf("%d resources are retained, want %d", found, want)
	}
}
