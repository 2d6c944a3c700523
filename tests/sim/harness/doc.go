// Package stage is where the engine plays in the simulated world: the real
// engine, catalog, views and worker on package sim, with blocks that follow a
// script, and a stagehand who delivers messages, rings alarms and moves the
// clock. Everything happens in one goroutine and follows from the world's seed.
//
// A tour: stage.go puts the parts together, hand.go delivers and rings, worker.go
// lets the SDK's worker call scripted blocks, and judge.go and oracle.go hold what was played
// against what must hold of every play.
package harness
