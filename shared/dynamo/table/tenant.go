package table

import "strings"

var tenantEscape = strings.NewReplacer("%", "%25", "#", "%23")

// Tenant is how a tenant's name begins a key: no tenant can choose a name that
// reaches into another's keys.
func Tenant(name string) string { return tenantEscape.Replace(name) + "#" }

var tenantRestore = strings.NewReplacer("%23", "#", "%25", "%")

// TenantOf is the opposite of Tenant, given what stands before the separator.
func TenantOf(escaped string) string { return tenantRestore.Replace(escaped) }
