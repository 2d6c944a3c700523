// Package lasttry sees to it that a message which its queue gives up on does not
// vanish without a word: whoever receives it for the last time tells the engine,
// which writes the reason into the run's history.
package lasttry
