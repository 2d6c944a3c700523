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

var releaseFlag = flag.String("release", "", "write down the tables and queues of this release: part of making one")

// releasedStack is what an installed stack holds that an update must not lose: by
// logical id, what CloudFormation replaces the resource for if it changes.
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

// replacementProperties are the properties for whose change CloudFormation replaces a resource, as
// the reference of each type says ("Update requires: Replacement").
var replacementProperties = map[string][]string{
	"AWS::DynamoDB::Table": {"TableName", "KeySchema", "ImportSourceSpecification"},
	"AWS::SQS::Queue":      {"QueueName", "FifoQueue"},
}

// tablesAndQueues are the tables and queues of a template.
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

// updateLosses says what an update from one release to the next would lose, or what
// CloudFormation would refuse to do to a table.
func updateLosses(was, is map[string]releasedResource) []string {
	var found []string
	for _, id := range slices.Sorted(maps.Keys(was)) {
		now, ok := is[id]
		if !ok || now.Type != was[id].Type {
			found = append(found, fmt.Sprintf("%s (%s) is removed: give it back its id, or keep it beside its successor", id, was[id].Type))
			continue
		}
		for _, property := range slices.Sorted(maps.Keys(was[id].Fixed)) {
			if now.Fixed[property] != was[id].Fixed[property] {
				found = append(found, fmt.Sprintf("%s is replaced by an empty one: %s was %q and is %q", id, property, was[id].Fixed[property], now.Fixed[property]))
			}
		}
		changes := 0
		for _, name := range slices.Sorted(maps.Keys(was[id].Indexes)) {
			switch keys, there := now.Indexes[name]; {
			case !there:
				changes++
			case keys != was[id].Indexes[name]:
				found = append(found, fmt.Sprintf("index %s of %s changes in place, which DynamoDB cannot do: give it another name", name, id))
			}
		}
		for name := range now.Indexes {
			if _, there := was[id].Indexes[name]; !there {
				changes++
			}
		}
		if changes > 1 {
			found = append(found, fmt.Sprintf("%s: %d indexes come or go, and DynamoDB does one in an update", id, changes))
		}
	}
	return found
}

// What users have installed is updated to what this tree makes. None of their
// tables and queues may go or be made anew: not even a retained table helps those
// whose stack then points at an empty one.
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
		t.Fatalf("release %s had four tables and five queues, %s names %d", last.Release, file, len(last.Resources))
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
	was := table(func(*releasedResource) {})
	for want, is := range map[string]map[string]releasedResource{
		"":           was,
		"is removed": {"Renamed": was["Table"]},
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
		"2 indexes come or go":    table(func(h *releasedResource) { h.Indexes = map[string]string{"late": "a", "by-status": "b"} }),
		"AWS::DynamoDB::Table) i": {"Table": {Type: "AWS::SQS::Queue"}},
	} {
		found := strings.Join(updateLosses(was, is), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("want a loss with %q, got %q", want, found)
		}
	}
	// One index may come, and other resources may.
	if found := updateLosses(was, table(func(h *releasedResource) { h.Indexes = map[string]string{"due": "a", "by-status": "b", "new": "c"} })); len(found) > 0 {
		t.Errorf("a new index: %v", found)
	}
}
