-- uses: showing_workers
-- ARGV: time. Returns the registered workers as views show them, oldest first.

return shown_workers()
