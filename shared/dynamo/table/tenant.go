package table

import "strings"

var tenantEscaper = strings.NewReplacer("%", "%25", "#", "%23")

// TenantPrefix is how a tenant's name begins a key: no tenant can choose a name that
// reaches into another's keys.
func TenantPrefix(name string) string { return tenantEscaper.Replace(name) + "#" }

var tenantUnescaper = strings.NewReplacer("%23", "#", "%25", "%")

// UnescapeTenant is the opposite of Tenant, given what stands before the separator.
func UnescapeTenant(escaped string) string { return tenantUnescaper.Replace(escaped) }
