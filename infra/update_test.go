package infra

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var releaseFlag = flag.String("release", "", "record the tables and queues of this release; part of publishing it")

// releasedStack lists the tables and queues of a released stack by logical id. An update
// must not lose them.
type releasedStack struct {
	Release   string
	Resources map[string]releasedResource
}

// releasedResource is a table or a queue.
type releasedResource struct {
	Type    string
	Fixed   map[string]string // a change of one of these replaces the resource
	Indexes map[string]string `json:",omitempty"` // of a table, with their keys
}

// replacementProperties are the properties whose change makes CloudFormation replace the
// resource ("Update requires: Replacement" in the reference of its type).
var replacementProperties = map[string][]string{
	"AWS::DynamoDB::Table": {"TableName", "KeySchema", "ImportSourceSpecification"},
	"AWS::SQS::Queue":      {"QueueName", "FifoQueue"},
}

// tablesAndQueues returns the tables and queues of a template.
func tablesAndQueues(x *template) map[string]releasedResource {
	found := map[string]releasedResource{}
	for id, r := range x.Resources {
		if replacementProperties[r.Type] == nil {
			continue
		}
		h := releasedResource{Type: r.Type, Fixed: map[string]string{}}
		for _, property := range replacementProperties[r.Type] {
			h.Fixed[property] = render(r.property(property))
		}
		keys := render(r.property("KeySchema"))
		for _, a := range asList(r.property("AttributeDefinitions")) {
			// The type of a key's attribute is part of the key.
			if name := render(propertyOf(a, "AttributeName")); strings.Contains(keys, "AttributeName="+name+",") {
				h.Fixed["type of "+name] = render(propertyOf(a, "AttributeType"))
			}
		}
		for _, index := range asList(r.property("GlobalSecondaryIndexes")) {
			if h.Indexes == nil {
				h.Indexes = map[string]string{}
			}
			h.Indexes[render(propertyOf(index, "IndexName"))] = render(propertyOf(index, "KeySchema")) + " " + render(propertyOf(index, "Projection"))
		}
		found[id] = h
	}
	return found
}

// updateLosses returns what an update from one release to the next would lose, and what
// CloudFormation would refuse.
func updateLosses(before, after map[string]releasedResource) []string {
	var found []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[id]
		if !ok || now.Type != before[id].Type {
			found = append(found, fmt.Sprintf("%s (%s) is removed: restore its id, or keep it together with its successor", id, before[id].Type))
			continue
		}
		for _, property := range slices.Sorted(maps.Keys(before[id].Fixed)) {
			if now.Fixed[property] != before[id].Fixed[property] {
				found = append(found, fmt.Sprintf("%s is replaced by an empty one: %s was %q and is %q", id, property, before[id].Fixed[property], now.Fixed[property]))
			}
		}
		changes := 0
		for _, name := range slices.Sorted(maps.Keys(before[id].Indexes)) {
			switch keys, exists := now.Indexes[name]; {
			case !exists:
				changes++
			case keys != before[id].Indexes[name]:
				found = append(found, fmt.Sprintf("index %s of %s changes in place, which DynamoDB cannot do: give it another name", name, id))
			}
		}
		for name := range now.Indexes {
			if _, existed := before[id].Indexes[name]; !existed {
				changes++
			}
		}
		if changes > 1 {
			found = append(found, fmt.Sprintf("%s: %d indexes are added or removed, and DynamoDB allows one per update", id, changes))
		}
	}
	return found
}

// An update from the last release to this tree must not remove or replace a table or
// queue. Even if CloudFormation retains the old table, the stack would then use an empty
// one.
func TestUpdate_KeepsTablesAndQueues(t *testing.T) {
	file := filepath.Join("testdata", "released.json")
	if *releaseFlag != "" {
		content, err := json.MarshalIndent(releasedStack{*releaseFlag, tablesAndQueues(stacks()["prod"])}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last releasedStack
	if err := json.Unmarshal(content, &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Resources) < 9 {
		t.Fatalf("release %s had four tables and five queues, %s lists %d", last.Release, file, len(last.Resources))
	}
	for _, loss := range updateLosses(last.Resources, tablesAndQueues(stacks()["prod"])) {
		t.Errorf("against release %s: %s", last.Release, loss)
	}
}

func TestUpdateLosses_ReportsReplacement(t *testing.T) {
	table := func(change func(*releasedResource)) map[string]releasedResource {
		h := releasedResource{
			Type:    "AWS::DynamoDB::Table",
			Fixed:   map[string]string{"KeySchema": "pk", "TableName": "", "type of pk": "S"},
			Indexes: map[string]string{"due": "a", "by-status": "b"},
		}
		change(&h)
		return map[string]releasedResource{"Table": h}
	}
	before := table(func(*releasedResource) {})
	for want, after := range map[string]map[string]releasedResource{
		"":           before,
		"is removed": {"Renamed": before["Table"]},
		"KeySchema was": table(func(h *releasedResource) {
			h.Fixed = map[string]string{"KeySchema": "id", "TableName": "", "type of pk": "S"}
		}),
		"TableName was": table(func(h *releasedResource) {
			h.Fixed = map[string]string{"KeySchema": "pk", "TableName": "x", "type of pk": "S"}
		}),
		"type of pk was": table(func(h *releasedResource) {
			h.Fixed = map[string]string{"KeySchema": "pk", "TableName": "", "type of pk": "N"}
		}),
		"index due of Table":      table(func(h *releasedResource) { h.Indexes = map[string]string{"due": "c", "by-status": "b"} }),
		"2 indexes are added":     table(func(h *releasedResource) { h.Indexes = map[string]string{"late": "a", "by-status": "b"} }),
		"AWS::DynamoDB::Table) i": {"Table": {Type: "AWS::SQS::Queue"}},
	} {
		found := strings.Join(updateLosses(before, after), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("want a loss with %q, got %q", want, found)
		}
	}
	// An update may add one index, and other resources.
	if found := updateLosses(before, table(func(h *releasedResource) { h.Indexes = map[string]string{"due": "a", "by-status": "b", "new": "c"} })); len(found) > 0 {
		t.Errorf("a new index: %v", found)
	}
}
