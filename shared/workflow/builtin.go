package workflow

import (
	"encoding/json"
	"slices"
	"strings"
)

// Blocks of http steps, by what may be done with their jobs. Nobody registers them: the engine
// knows them, and the stock worker serves them. They never change, because definitions published
// with them need them for ever.
const (
	HTTPReadBlock = "lockstep/http_read:1.0.0" // pure: GET and HEAD
	HTTPSetBlock  = "lockstep/http_set:1.0.0"  // idempotent: PUT and DELETE, and calls that the author declares idempotent
	HTTPSendBlock = "lockstep/http_send:1.0.0" // neither
)

// builtinPackage is the package of the product's own blocks.
const builtinPackage = "lockstep"

const httpResultSchema = `{"type":"object","additionalProperties":false,"properties":{"status":{"type":"integer"},"headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{}}}`

var builtinBlocks = []Block{
	{Package: builtinPackage, Name: "http_read", Version: "1.0.0", Pool: "default", Pure: true, ResultSchema: json.RawMessage(httpResultSchema)},
	{Package: builtinPackage, Name: "http_set", Version: "1.0.0", Pool: "default", Idempotent: true, ResultSchema: json.RawMessage(httpResultSchema)},
	{Package: builtinPackage, Name: "http_send", Version: "1.0.0", Pool: "default", ResultSchema: json.RawMessage(httpResultSchema)},
}

// BuiltinBlock returns the product's own block with an exact reference.
func BuiltinBlock(ref Ref) (Block, bool) {
	i := slices.IndexFunc(builtinBlocks, func(b Block) bool { return b.Ref().FullName() == ref.FullName() && ref.Matches(b.Version) })
	if i < 0 {
		return Block{}, false
	}
	return builtinBlocks[i], true
}

// BuiltinName reports whether a reference, of any version, names one of the product's own blocks.
func BuiltinName(ref Ref) bool {
	return slices.ContainsFunc(builtinBlocks, func(b Block) bool { return b.Ref().FullName() == ref.FullName() })
}

// IsHTTPStep reports whether an exact reference names a block of http steps.
func IsHTTPStep(block string) bool {
	return strings.HasPrefix(block, builtinPackage+"/http_") && slices.ContainsFunc(builtinBlocks, func(b Block) bool { return b.Ref().String() == block })
}
