package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Definition is a published definition; lists leave out its source.
type Definition struct {
	Package     string           `json:"package"`
	Name        string           `json:"name"`
	Version     string           `json:"version"`
	Digest      string           `json:"digest"` // of the canonical source
	Archived    bool             `json:"archived"`
	Draft       bool             `json:"draft"`
	PublishedAt *time.Time       `json:"publishedAt"`
	PublishedBy *string          `json:"publishedBy"`
	Definition  *json.RawMessage `json:"definition"`

	// Warnings are only in the response to a publication. They name what does not match the blocks
	// and workflows registered now.
	Warnings []workflow.Issue `json:"warnings,omitempty"`
}

// Publish publishes a definition, YAML or JSON. created is false if it was stored before with
// this content, or only checked.
func (c *Client) Publish(ctx context.Context, source []byte, dryRun bool) (d Definition, created bool, err error) {
	return c.publish(ctx, source, dryRun, url.Values{})
}

// PublishDraft stores a definition as a draft, which only a start with AllowDraft and its exact version
// finds. Publish with the same content makes it published.
func (c *Client) PublishDraft(ctx context.Context, source []byte, dryRun bool) (d Definition, created bool, err error) {
	return c.publish(ctx, source, dryRun, url.Values{"draft": {"true"}})
}

func (c *Client) publish(ctx context.Context, source []byte, dryRun bool, query url.Values) (d Definition, created bool, err error) {
	q := request{method: http.MethodPost, path: "/workflow-definition/publish", query: query, body: source, contentType: "application/yaml"}
	if dryRun {
		query.Set("dryRun", "true")
	}
	d, status, err := decodeWithStatus[Definition](c.send(ctx, q))
	return d, status == http.StatusCreated, err
}

// Definitions lists all versions of all definitions, without their source.
func (c *Client) Definitions(ctx context.Context) iter.Seq2[Definition, error] {
	return c.LabelledDefinitions(ctx, nil)
}

// LabelledDefinitions lists the definitions that have all the labels.
func (c *Client) LabelledDefinitions(ctx context.Context, labels map[string]string) iter.Seq2[Definition, error] {
	query := url.Values{}
	addLabels(query, labels)
	return paginate[Definition](ctx, c, query, "workflow-definition")
}

// Versions lists the versions of one definition, without their source.
func (c *Client) Versions(ctx context.Context, pkg, name string) iter.Seq2[Definition, error] {
	return paginate[Definition](ctx, c, nil, "workflow-definition", pkg, name)
}

// Definition returns one version with its source; the version of ref may be a major or a minor one.
func (c *Client) Definition(ctx context.Context, ref workflow.Ref) (Definition, error) {
	return get[Definition](ctx, c, refSegments("workflow-definition", ref)...)
}

// Archive forbids new executions of one exact version; existing ones continue. The audit has the reason.
func (c *Client) Archive(ctx context.Context, ref workflow.Ref, why string) (Definition, error) {
	query := url.Values{}
	set(query, "reason", why)
	return do[Definition](ctx, c, request{method: http.MethodDelete, path: route(refSegments("workflow-definition", ref)...), query: query})
}

// Restore allows executions of an archived version again. The audit has the reason.
func (c *Client) Restore(ctx context.Context, ref workflow.Ref, why string) (Definition, error) {
	return post[Definition](ctx, c, reason{why}, append(refSegments("workflow-definition", ref), "restore")...)
}

// DefinitionSchema returns the JSON Schema of the definition format.
func (c *Client) DefinitionSchema(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "workflow-definition", "schema")
}

// Secrets lists the secrets that workflows and blocks refer to, without their values.
func (c *Client) Secrets(ctx context.Context) (views.SecretsView, error) {
	return get[views.SecretsView](ctx, c, "secrets")
}

// RegisterBlock registers a block. created is false if it was registered before
// with this content.
func (c *Client) RegisterBlock(ctx context.Context, b workflow.Block) (created bool, err error) {
	_, status, err := decodeWithStatus[workflow.Block](c.send(ctx, request{method: http.MethodPost, path: "/function-blocks/register", body: b}))
	return status == http.StatusCreated, err
}

// Blocks lists the registered blocks.
func (c *Client) Blocks(ctx context.Context) iter.Seq2[workflow.Block, error] {
	return paginate[workflow.Block](ctx, c, nil, "function-blocks")
}

// Schedules lists the schedules of workflows.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[views.ScheduleView, error] {
	return paginate[views.ScheduleView](ctx, c, nil, "schedules")
}

// Schedule returns the schedule of a workflow, with the states of its newest executions.
func (c *Client) Schedule(ctx context.Context, pkg, name string) (views.ScheduleView, error) {
	return get[views.ScheduleView](ctx, c, "schedules", pkg, name)
}

// PauseSchedule pauses a schedule until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, pkg, name, why string) (views.ScheduleView, error) {
	return post[views.ScheduleView](ctx, c, reason{why}, "schedules", pkg, name, "pause")
}

// ResumeSchedule resumes a paused schedule, from its next fire time on.
func (c *Client) ResumeSchedule(ctx context.Context, pkg, name, why string) (views.ScheduleView, error) {
	return post[views.ScheduleView](ctx, c, reason{why}, "schedules", pkg, name, "resume")
}

// RemoveSchedule removes a schedule until another version of the workflow is published.
func (c *Client) RemoveSchedule(ctx context.Context, pkg, name, why string) (views.ScheduleView, error) {
	query := url.Values{}
	set(query, "reason", why)
	return do[views.ScheduleView](ctx, c, request{method: http.MethodDelete, path: route("schedules", pkg, name), query: query})
}

// FireSchedule starts an execution of a schedule now. existed is true if the idempotency key has
// started it before. Without a key the request is not retried.
func (c *Client) FireSchedule(ctx context.Context, pkg, name, idempotencyKey string) (f views.FiredView, existed bool, err error) {
	f, status, err := decodeWithStatus[views.FiredView](c.send(ctx, request{method: http.MethodPost, path: route("schedules", pkg, name, "fire"), key: idempotencyKey}))
	return f, status == http.StatusOK, err
}
