package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// This file finds the entity types and groups that were probably meant. After an error it finds
// none.

// seedEntityOf returns the entity type that a version of a workflow changes, "" if unknown.
func seedEntityOf(ctx context.Context, api *client.Client, ref workflow.Ref) string {
	d, err := api.Definition(ctx, ref)
	if err != nil || d.Definition == nil {
		return ""
	}
	var source struct {
		SeedEntity string `json:"seedEntity"`
	}
	_ = json.Unmarshal(*d.Definition, &source) // an unreadable one has none
	return source.SeedEntity
}

// nearestType returns the entity type most similar to kind, "" if kind itself exists or nothing is
// similar.
func nearestType(ctx context.Context, api *client.Client, kind string) string {
	var known []string
	for t, err := range api.EntityTypes(ctx) {
		if err != nil {
			return ""
		}
		known = append(known, t)
	}
	if slices.Contains(known, kind) {
		return ""
	}
	return workflow.Closest(kind, known)
}

// maxGroupedEntities bounds the entities that are read to find groups.
const maxGroupedEntities = 1000

// groupsOf lists the groups of the first entities of a type, sorted.
func groupsOf(ctx context.Context, api *client.Client, kind string) []string {
	var all []string
	n := 0
	for e, err := range api.Entities(ctx, workflow.Selector{Type: kind}) {
		if n++; err != nil || n > maxGroupedEntities {
			break
		}
		all = append(all, e.Groups...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// meantSelection suggests the type or group that was probably meant by a selection that found
// nothing, with words before it; "" if there is none.
func meantSelection(ctx context.Context, api *client.Client, kind string, groups []string) string {
	if near := nearestType(ctx, api, kind); near != "" {
		return fmt.Sprintf("; did you mean the type %s?", near)
	}
	if len(groups) == 0 {
		return ""
	}
	known := groupsOf(ctx, api, kind)
	for _, g := range groups {
		if near := workflow.Closest(g, known); near != "" && !slices.Contains(known, g) {
			return fmt.Sprintf("; did you mean the group %s?", near)
		}
	}
	return ""
}

// noteMeant suggests the type or group that was probably meant, after an execution whose selection
// found no entity.
func noteMeant(cmd *cobra.Command, api *client.Client, x views.ExecutionView, selected *workflow.Selector) {
	if selected == nil || x.Error == nil || x.Error.Code != workflow.FailureNothingSelected && x.Error.Code != workflow.FailureEntityNotFound {
		return
	}
	kind := selected.Type
	if kind == "" {
		kind = seedEntityOf(cmd.Context(), api, x.Workflow)
	}
	if meant := meantSelection(cmd.Context(), api, kind, selected.Groups); meant != "" {
		printNote(cmd, "nothing is selected%s", meant)
	}
}

// hintNoEntity adds what to do about an entity that does not exist. It returns other errors
// unchanged.
func hintNoEntity(ctx context.Context, api *client.Client, key workflow.EntityKey, err error) error {
	if !workflow.Is(err, workflow.CodeNotFound) {
		return err
	}
	if near := nearestType(ctx, api, key.Type); near != "" {
		return withHint(err, "did you mean %s/%s?", near, key.ID)
	}
	return withHint(err, "\"lockstep entities list %s\" lists the entities of this type", key.Type)
}
