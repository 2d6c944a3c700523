// Package show says things to people: tables with aligned columns, and sentences
// about how a run stands.
package show
