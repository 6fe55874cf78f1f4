// SPDX-License-Identifier: Apache-2.0
// The functions of Kerberos and LDAP that Debian's libpq.a calls. These libraries have no static
// archives, so this file has the functions instead, and each of them fails. (Connections set
// gssencmode=disable; a server that asks for GSSAPI is refused.)

namespace {
unsigned refuse(unsigned* minor) noexcept {
  if (minor) *minor = 0;
  return 13U << 16U;  // GSS_S_FAILURE
}
}  // namespace

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming)
extern void* GSS_C_NT_HOSTBASED_SERVICE;
void* GSS_C_NT_HOSTBASED_SERVICE = nullptr;
unsigned gss_acquire_cred(unsigned* minor) { return refuse(minor); }
unsigned gss_delete_sec_context(unsigned* minor) { return refuse(minor); }
unsigned gss_display_status(unsigned* minor) { return refuse(minor); }
unsigned gss_import_name(unsigned* minor) { return refuse(minor); }
unsigned gss_init_sec_context(unsigned* minor) { return refuse(minor); }
unsigned gss_release_buffer(unsigned* minor) { return refuse(minor); }
unsigned gss_release_cred(unsigned* minor) { return refuse(minor); }
unsigned gss_release_name(unsigned* minor) { return refuse(minor); }
unsigned gss_unwrap(unsigned* minor) { return refuse(minor); }
unsigned gss_wrap(unsigned* minor) { return refuse(minor); }
unsigned gss_wrap_size_limit(unsigned* minor) { return refuse(minor); }
int ldap_count_entries() { return 0; }
const char* ldap_err2string() { return "this program has no LDAP"; }
void* ldap_first_entry() { return nullptr; }
void* ldap_get_values_len() { return nullptr; }
void* ldap_init() { return nullptr; }
int ldap_msgfree() { return 0; }
int ldap_result() { return -1; }
int ldap_search_st() { return -1; }
int ldap_set_option() { return -1; }
int ldap_simple_bind() { return -1; }
int ldap_unbind() { return 0; }
void ldap_value_free_len() {}
}
