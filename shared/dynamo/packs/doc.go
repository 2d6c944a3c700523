// Package packs keeps the packs among the items of the jobs table, those of a shard
// of a step run in one partition, with its done set and what is stored beside them.
//
// packs.go is the engine's side, claims.go the worker's; packitem.go is a pack as an
// item, done.go the done sets, stored.go what no item or message holds, and keys.go
// names them all.
package packs
