package views

// SecretsView lists the secrets that workflows and blocks refer to, without their values.
type SecretsView struct {
	Items    []SecretView `json:"items"`
	Complete bool         `json:"complete"` // all workflows and blocks were read
}

// SecretView is one secret by its name. Problem is the reason why it does not resolve, null if it
// does.
type SecretView struct {
	Name     string   `json:"name"`
	Resolves bool     `json:"resolves"`
	Problem  *string  `json:"problem"`
	UsedBy   []string `json:"usedBy"` // workflow package/name:version, or block package/name:version
}
