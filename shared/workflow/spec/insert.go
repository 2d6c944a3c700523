package spec

// Insert is a row that a step puts into a table. Its values, by column, are the parameters of the
// step.
type Insert struct {
	Table string `json:"table"`
}

// ByEngine reports whether the engine itself does what the step says: no block is called, and no
// execution started.
func (s *Step) ByEngine() bool { return s.Insert != nil }
