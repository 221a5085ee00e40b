-- Announces what a worker can play: lease in ms, versions of the engine.
local expires = clock() + ARGV[1]
for i = 2, #ARGV do redis.call('ZADD', PLAYABLE, 'GT', expires, ARGV[i]) end
