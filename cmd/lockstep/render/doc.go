// Package show says things to people: tables with aligned columns, and sentences
// about how a run stands: sentence.go, table.go, bar.go for one that is followed,
// verbs.go for what an operator may do with it.
package render
