// Package catalog keeps what runs are made of: published definitions, registered
// function blocks, and the inventory of entities.
//
// Definitions and blocks are immutable under their exact version: the same
// content again is no news, other content is a conflict. Entities are upserted
// at any time; what a run has read of one under its lock stays as it was read.
//
//   - definitions.go publishes, archives and restores; cycles.go refuses workflows
//     that embed themselves; warnings.go and results.go tell what does not fit what
//     is registered.
//   - blocks.go registers, entities.go keeps the inventory.
package catalog
