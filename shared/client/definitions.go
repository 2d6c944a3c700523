package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/client/gen"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Publish sends a definition, YAML or JSON. created is false if it was published
// before with this content, or only checked.
func (c *Client) Publish(ctx context.Context, source []byte, dryRun bool) (d Definition, created bool, err error) {
	params := gen.PublishDefinitionParams{DryRun: some(dryRun)}
	d, status, err := readStatus[Definition](c.api.PublishDefinitionWithBody(ctx, &params, "application/yaml", bytes.NewReader(source)))
	return d, status == http.StatusCreated, err
}

// Definitions lists all versions of all definitions, without their source.
func (c *Client) Definitions(ctx context.Context) iter.Seq2[Definition, error] {
	return pages[Definition](func(token *string) (*http.Response, error) {
		return c.api.ListDefinitions(ctx, &gen.ListDefinitionsParams{PageToken: token})
	})
}

// Versions lists the versions of one definition, without their source.
func (c *Client) Versions(ctx context.Context, pkg, name string) iter.Seq2[Definition, error] {
	return pages[Definition](func(token *string) (*http.Response, error) {
		return c.api.ListVersions(ctx, pkg, name, &gen.ListVersionsParams{PageToken: token})
	})
}

// Definition reads one version with its source; the reference's version may be
// a major or a minor.
func (c *Client) Definition(ctx context.Context, ref workflow.Ref) (Definition, error) {
	return read[Definition](c.api.GetDefinition(ctx, ref.Package, ref.Name, ref.Version))
}

// Archive keeps new runs from one exact version; those that there are go on.
func (c *Client) Archive(ctx context.Context, ref workflow.Ref) (Definition, error) {
	return read[Definition](c.api.ArchiveDefinition(ctx, ref.Package, ref.Name, ref.Version))
}

// Restore allows runs of an archived version again.
func (c *Client) Restore(ctx context.Context, ref workflow.Ref) (Definition, error) {
	return read[Definition](c.api.RestoreDefinition(ctx, ref.Package, ref.Name, ref.Version))
}

// DefinitionSchema is the JSON Schema of the definition format.
func (c *Client) DefinitionSchema(ctx context.Context) (json.RawMessage, error) {
	return read[json.RawMessage](c.api.GetDefinitionSchema(ctx))
}

// RegisterBlock registers a block. created is false if it was registered before
// with this content.
func (c *Client) RegisterBlock(ctx context.Context, b workflow.Block) (created bool, err error) {
	_, status, err := readStatus[workflow.Block](c.api.RegisterBlock(ctx, b))
	return status == http.StatusCreated, err
}

// Blocks lists the registered blocks.
func (c *Client) Blocks(ctx context.Context) iter.Seq2[workflow.Block, error] {
	return pages[workflow.Block](func(token *string) (*http.Response, error) {
		return c.api.ListBlocks(ctx, &gen.ListBlocksParams{PageToken: token})
	})
}
